"""Modules run as `python -m` would, two at a time: how all experiments and benchmarks are tried.

Two processes run one after the other, so that torch, Pyro and ArviZ are imported twice instead of
fifty times.
"""

from __future__ import annotations

import io
import multiprocessing
import runpy
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout

#: Modules that run one after the other, each with the arguments of its command line.
Chain = Sequence[Sequence[str]]


def run_in_pairs(chains: Sequence[Chain]) -> list[str]:
    """Run chains side by side; print what each has printed, and its seconds, when it has ended.

    :param chains: of commands; the first that fails ends its chain.
    :returns: the commands that failed.
    """
    failed = []
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
    try:
        running = {pool.submit(_run, chain): chain for chain in chains}
        for done in as_completed(running):
            try:
                printed, wrong = done.result()
            except BrokenProcessPool:  # a process was killed, and the pool with it
                printed, wrong = "", [" ".join(running[done][0])]
            print(printed, end="", flush=True)
            failed += wrong
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def _run(chain: Chain) -> tuple[str, list[str]]:
    printed = ""
    for command in chain:
        start, output = time.monotonic(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            well = _well(command)
        printed += f"== {' '.join(command)} ({time.monotonic() - start:.0f} s)\n"
        printed += output.getvalue()
        if not well:
            return printed, [" ".join(command)]
    return printed, []


def _well(command: Sequence[str]) -> bool:
    """Whether a module ends without an exception and with exit code 0."""
    sys.argv = [*command]
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return not end.code
    except Exception:
        traceback.print_exc()
        return False
    return True
