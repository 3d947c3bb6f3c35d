"""Linear models and untuned boosting on the published rows, with all inputs and with r alone.

They show how much of a score of the published protocol needs x, or more than a straight line.
"""

from __future__ import annotations

import argparse

from reproduce.arguments import positive_count
from reproduce.methods import METHODS, methods_of
from reproduce.published import fit_of, run, settings_of
from reproduce.rendering.tables import own_scores
from reproduce.runs import Fit, add_run_arguments, run_fits
from reproduce.tasks import PUBLISHED_TASKS

CHECKS = methods_of("checks")


def fits(datasets: list[str], seeds: int, quick: bool) -> list[Fit]:
    """Every check of every data set; only boosting, which stops early, depends on the seed."""
    return [
        fit_of("checks", name, "published", seed, method, settings_of(name, method, quick))
        for name in datasets
        for method in CHECKS
        for seed in range(seeds if METHODS[method].trees and not quick else 1)
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce checks`."""
    parser.add_argument("--datasets", nargs="+", choices=PUBLISHED_TASKS, default=PUBLISHED_TASKS)
    parser.add_argument("--seeds", type=positive_count, default=10, help="of boosting, from 0")
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the checks that the table lacks."""
    path = arguments.output / "checks.csv"
    every = fits(arguments.datasets, arguments.seeds, arguments.quick)
    table = run_fits(path, every, run, arguments)
    print(f"\n{own_scores(table)}\n\nwritten: {path}")
