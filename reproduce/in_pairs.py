"""Commands of this interpreter, two at a time: how all experiments and all benchmarks are tried."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

#: Arguments of `python`, of commands that run one after the other.
Chain = Sequence[Sequence[str]]


def run_in_pairs(chains: Sequence[Chain]) -> list[str]:
    """Run chains side by side; print what each has printed, and its seconds, when it has ended.

    :param chains: of commands; the first that fails ends its chain.
    :returns: the commands that failed.
    """
    failed = []
    pool = ThreadPoolExecutor(2)
    try:
        for done in as_completed([pool.submit(_run, chain) for chain in chains]):
            printed, wrong = done.result()
            print(printed, end="", flush=True)
            failed += wrong
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def _run(chain: Chain) -> tuple[str, list[str]]:
    printed = ""
    for arguments in chain:
        command, start = f"python {shlex.join(arguments)}", time.monotonic()
        run = subprocess.run(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed += f"== {command} ({time.monotonic() - start:.0f} s)\n{run.stdout}"
        if run.returncode:
            return printed, [command]
    return printed, []
