"""Strict and implicit monotonicity on a real data set, beside monotone gradient boosting."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import cross_val_predict

from reproduce.arguments import positive_count
from reproduce.intervals import TEST_TO_TRAIN, paired_interval, samples
from reproduce.methods import METHODS, Rows, methods_of, rows_of, train
from reproduce.rendering.markdown import known_first, markdown, number, shown
from reproduce.rendering.tables import star
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits
from reproduce.scores import distribution_scores
from reproduce.tasks import TASKS, own_metric, rows_of_fit

IMPLICIT = methods_of("implicit")
DATASETS = [name for name, task in TASKS.items() if task.implicit]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One method on one random 4:1 split."""
    dataset, learn, test, options = rows_of_fit(fit)
    rows = rows_of(dataset, learn)
    start = time.perf_counter()
    settings: dict[str, Any] = {}
    if not METHODS[fit.method].estimator:
        settings = {"schedule": "cosine", **options["model"], **options["fit"]}
    model, _ = train(fit.method, rows, settings, fit.seed, device=device)
    spread = None
    if METHODS[fit.method].estimator and dataset.response == "continuous":
        spread = out_of_fold_spread(model, rows)
    scores = distribution_scores(dataset, [model], test, device, spread)
    cost = {"seconds": time.perf_counter() - start, "epochs": settings.get("epochs", 0)}
    return {**scores, **cost}


def out_of_fold_spread(booster: Any, rows: Rows) -> float:
    """Spread of the errors of scikit-learn's boosting on training rows that it did not see."""
    inputs, target = torch.cat([rows.x, rows.r], dim=1).numpy(), rows.y.numpy()
    predicted = cross_val_predict(booster.estimator, inputs, target, cv=5)
    return float(np.sqrt(np.mean((predicted - target) ** 2)))


def report(table: pd.DataFrame) -> str:
    """Scores of every method, and the paired differences of two of them to those of GCM."""
    metric = own_metric(table)["metric"].iloc[0]
    values = samples(table, ["method", "metric"])
    lines = []
    for method in known_first(table["method"]):
        line = [method]
        for name in (metric, "log score", "calibration error"):
            gap = None
            if method != "GCM" and ("GCM", name) in values:
                gap = paired_interval(values[method, name], values["GCM", name], TEST_TO_TRAIN)
            line += [number(values[method, name].mean()), shown(gap, mark=star(gap)) if gap else ""]
        lines.append(line[:-1])
    header = ["Method", metric, "minus GCM", "Log score", "minus GCM", "Calibration error"]
    return markdown(header, lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce implicit`."""
    parser.add_argument("--dataset", choices=DATASETS, required=True)
    parser.add_argument("--splits", type=positive_count, default=3, help="random 4:1 splits")
    parser.add_argument("--methods", nargs="+", choices=IMPLICIT, default=IMPLICIT)
    parser.add_argument("--epochs", type=positive_count)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the splits that the table lacks, and print it."""
    name, settings = arguments.dataset, TASKS[arguments.dataset].implicit
    epochs = 1 if arguments.quick else arguments.epochs
    options = {**settings, "fit": {**settings["fit"], **({"epochs": epochs} if epochs else {})}}
    splits = range(1 if arguments.quick else arguments.splits)
    fits = [
        Fit(
            *("implicit", name, "default", "held-out", str(seed), seed, method),
            as_json({} if METHODS[method].estimator else options),
        )
        for seed in splits
        for method in arguments.methods
    ]
    path = arguments.output / f"implicit_{name}.csv"
    table = run_fits(path, fits, run, arguments)
    print(f"\n{name}, {len(splits)} splits, {options}\n\n{report(table)}")
    print(f"\nwritten: {path}")
