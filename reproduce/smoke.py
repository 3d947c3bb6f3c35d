"""Every experiment at a size that takes seconds, two at a time, and the report on them."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from joblib import Parallel, delayed

#: Chains of commands, a line each.
FILE = Path(__file__).with_suffix(".txt")


def main(arguments: argparse.Namespace) -> None:
    """Run all of them."""
    out, with_data = str(arguments.output), "PYRO_GCM_DATA" in os.environ
    quick = ["--output", out, "--quick", "--jobs", "1"]
    chains = [
        [[*shlex.split(words), *quick] for words in line.removeprefix("data: ").split(" && ")]
        for line in FILE.read_text(encoding="utf-8").splitlines()
        if not line.startswith(("#",) if with_data else ("#", "data: "))
    ]
    # Two processes run one chain after the other, so that torch and Pyro are imported twice alone.
    Parallel(n_jobs=2)(map(delayed(_run), chains))
    last = [["report", "--results", out, "--output", str(Path(out) / "report")]]
    _run([["datasets", "--output", out], *last] if with_data else last)


def _run(commands: Sequence[Sequence[str]]) -> None:
    from reproduce.__main__ import main

    for words in commands:
        print("==", *words, flush=True)
        main(words)
