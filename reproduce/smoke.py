"""Every experiment at a size that takes seconds, two at a time, and the report on them."""

from __future__ import annotations

import argparse
import os
import shlex
import traceback
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from joblib import Parallel, delayed

from reproduce.runs import Refused, add_output

#: What `smoke` runs with --quick, one process each; a chain reads what it wrote.
SMOKE = [
    ["quantile --jobs 1", "quantile --jobs 1 --setting paper --methods MLP GCM"],
    ["auctions --jobs 1"],
    ["untouched --jobs 1 --datasets fair --methods Members"],
    ["study --jobs 1 --tasks fair --methods HistGradientBoosting"],
    ["calibration --jobs 1 --datasets fair"],
    ["falls --jobs 1 --datasets members IGCM 'members, made to fall'"],
    ["survival --jobs 1 --datasets veteran"],
    ["reference_posteriors --jobs 1 --datasets levels"],
    ["stories --jobs 1 --datasets groups"],
    ["ordinal --jobs 1 --datasets simulated"],
    ["distribution --jobs 1 --datasets simulated --methods 'LightGBM quantiles' 'Linear normal'"],
]
#: The same for experiments on data sets, for which `PYRO_GCM_DATA` has to name their folder.
SMOKE_WITH_DATA = [
    [
        "public --jobs 1 --datasets compas auto_mpg",
        "public --jobs 1 --protocol confirmation --datasets compas",
        "public --jobs 1 --protocol published",
        "public --jobs 1 --protocol members --datasets compas",
    ],
    ["public --jobs 1 --protocol released --datasets auto_mpg"],
    ["public --jobs 1 --protocol positive --datasets auto_mpg --methods MM"],
    ["public --jobs 1 --protocol changes --datasets auto_mpg --methods SMM Hint GCM"],
    ["search --jobs 1 --datasets adult --methods Members"],
    ["ablation --jobs 1", "ablation --jobs 1 --protocol released"],
    ["members_ablation --jobs 1 --datasets adult"],
    [
        f"{name} --jobs 1 --datasets compas --methods LightGBM 'Logistic regression'"
        for name in ("credit", "credit_falls")
    ],
    ["timing"],
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce smoke`."""
    add_output(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run all of them.

    :raises Refused: with those that failed.
    """
    out, with_data = str(arguments.output), "PYRO_GCM_DATA" in os.environ
    chains = [
        [[*shlex.split(words), "--output", out, "--quick"] for words in commands]
        for commands in [*(SMOKE_WITH_DATA if with_data else []), *SMOKE]
    ]
    # Two processes run one chain after the other, so that torch and Pyro are imported twice alone.
    failed = [*chain.from_iterable(Parallel(n_jobs=2)(map(delayed(_run), chains)))]
    last = [["report", "--results", out, "--output", str(Path(out) / "report")]]
    failed += _run([["datasets", "--output", out], *last] if with_data else last)
    if failed:
        raise Refused(f"failed: {'; '.join(failed)}")


def _run(commands: Sequence[Sequence[str]]) -> list[str]:
    """Run commands up to the first that fails, which is returned."""
    from reproduce.__main__ import main

    for words in commands:
        print("==", *words, flush=True)
        try:
            main(words)
        except (Exception, SystemExit):
            traceback.print_exc()
            return [" ".join(words)]
    return []
