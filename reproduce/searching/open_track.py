"""The open track: ensembles of the widest GCM and IGCM against three monotone boosters."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from pyro_gcm.training import Diverged
from reproduce import public
from reproduce.arguments import Refused, positive_count
from reproduce.methods import METHODS, methods_of, rows_of, spread_of_errors, train
from reproduce.rendering.tables import own_scores
from reproduce.runs import Fit, Scores, add_run_arguments, run_fits
from reproduce.scores import distribution_scores
from reproduce.searching.tuning import add_tune_argument, best_settings
from reproduce.tasks import TASKS, rows_of_fit

OPEN = methods_of("open")


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One trial, or one ensemble on one split; NaN where it diverged."""
    if fit.protocol == "tuning":
        return public.run(fit, device)
    entry = METHODS[fit.method]
    dataset, learn, test, settings = rows_of_fit(fit)
    rows = rows_of(dataset, learn)
    start = time.perf_counter()
    try:
        made = [
            train(fit.method, rows, settings, 100 * fit.seed + member, device=device)
            for member in range(entry.members)
        ]
    except Diverged:
        cost = {"seconds": time.perf_counter() - start, "epochs": 0}
        return {TASKS[fit.dataset].metric: math.nan, **cost}
    cost = {
        "seconds": time.perf_counter() - start,
        "epochs": sum(history.best_epoch for _, history in made if history),
    }
    spread = None
    if entry.estimator and dataset.response == "continuous":
        spread = spread_of_errors(
            dataset, learn, lambda rows: train(fit.method, rows, settings, fit.seed)[0]
        )
    models = [model for model, _ in made]
    return {**distribution_scores(dataset, models, test, device, spread), **cost}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce open`."""
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=OPEN, default=OPEN)
    parser.add_argument("--seeds", type=positive_count, default=5, help="splits, from 0")
    add_tune_argument(parser)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the trials and the ensembles that the tables lack."""
    for method in arguments.methods:
        if METHODS[method].estimator:
            try:
                METHODS[method].make()
            except ImportError as error:
                raise Refused(str(error)) from error
    candidates = {
        (name, method): public.candidates(name, method, arguments.quick)
        for name in arguments.datasets
        for method in arguments.methods
    }
    fits = [
        Fit("open", name, "default", "held-out", str(seed), seed, method, settings)
        for (name, method), settings in best_settings("open", candidates, run, arguments).items()
        for seed in range(1 if arguments.quick else arguments.seeds)
    ]
    path: Path = arguments.output / "open.csv"
    table = run_fits(path, fits, run, arguments)
    print(f"\n{own_scores(table)}\n\nwritten: {path}")
