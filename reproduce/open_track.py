"""The open track: ensembles of the widest GCM and IGCM against three monotone boosters."""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from pyro_gcm import data
from reproduce.arguments import Refused, positive_count
from reproduce.methods import METHODS, Predictor, diverged, rows_of, train
from reproduce.public import run as run_public
from reproduce.public import training_settings
from reproduce.results import RESULTS
from reproduce.runs import (
    Fit,
    Scores,
    Settings,
    add_run_arguments,
    as_json,
    read_results,
    run_fits,
)
from reproduce.scores import binary_scores, continuous_scores
from reproduce.tasks import TASKS, load, with_covariates
from reproduce.tuning import DESIGN, add_tune_argument, chosen, trials

#: Method of the open track -> method of the table that its members are.
OPEN = {
    "GCM ensemble": "GCM",
    "IGCM ensemble": "IGCM",
    "HistGradientBoosting": "HistGradientBoosting",
    "XGBoost": "XGBoost",
    "LightGBM": "LightGBM",
}
#: What the search of an ensemble's members goes over, in the places of the shared design.
GRID = {
    "learning_rate": (0.01, 0.003, 0.03),
    "hidden": (64, 32, 128),
    "weight_decay": (0.0, 1e-4, 1e-2),
}
FORMS: dict[str, tuple[Settings, ...]] = {
    "GCM ensemble": (
        {"form": "splines"},
        {"form": "alternatives"},
        {"form": "splines", "covariates": "signed log"},
    ),
    "IGCM ensemble": (
        {"alternatives": 3},
        {"alternatives": 1},
        {"alternatives": 6, "covariates": "signed log"},
    ),
}
MEMBERS = 5


def candidates(name: str, method: str, quick: bool) -> list[str]:
    """The six settings of a method, as JSON; one if quick."""
    settings = trials(OPEN[method])
    if method in FORMS:
        forms = [FORMS[method][places[-1]] for places in DESIGN]
        members = trials(OPEN[method], grid=GRID)
        settings = [{**member, **form} for member, form in zip(members, forms, strict=True)]
    base: Settings = training_settings(TASKS[name], OPEN[method], quick)
    made = [as_json({**base, **trial}) for trial in settings]
    return made[:1] if quick else made


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One trial, or one ensemble on one split."""
    settings = fit.options
    method = OPEN[fit.method]
    if fit.protocol == "tuning":
        return run_public(dataclasses.replace(fit, method=method), device)
    limit = settings.pop("rows", None)
    covariates = settings.pop("covariates", "raw")
    dataset = with_covariates(load(fit.dataset, fit.variant), covariates)
    learn, test = (part[:limit] for part in dataset.split(int(fit.split)))
    boosting = METHODS[method].boosting
    start = time.perf_counter()
    try:
        made = [
            train(method, rows_of(dataset, learn), settings, 100 * fit.seed + member, device=device)
            for member in range(1 if boosting else MEMBERS)
        ]
    except RuntimeError as failure:
        if not diverged(failure):
            raise
        cost = {"seconds": time.perf_counter() - start, "epochs": 0}
        return {TASKS[fit.dataset].metric: math.nan, **cost}
    cost = {
        "seconds": time.perf_counter() - start,
        "epochs": sum(history.best_epoch for _, history in made if history),
    }
    models: list[Any] = [model for model, _ in made]
    columns = [part[test].to(device) for part in (dataset.x, dataset.r, dataset.y)]
    prediction = _mean([model.predict(*columns[:2]) for model in models])
    y = dataset.y[test].numpy()
    if dataset.response == "binary":
        return {**binary_scores(prediction, y), **cost}
    if boosting:
        density = norm(prediction, _spread(dataset, learn, method, settings, fit.seed))
        return {**continuous_scores(prediction, density.logpdf(y), density.cdf(y), y), **cost}
    log_density = torch.stack([model.log_prob(*columns) for model in models]).double()
    mixture = (log_density.logsumexp(0) - math.log(len(models))).cpu().numpy()
    pit = _mean([model.cdf(*columns) for model in models])
    return {**continuous_scores(prediction, mixture, pit, y), **cost}


def _mean(predictions: list[Tensor]) -> np.ndarray:
    average: np.ndarray = torch.stack(predictions).double().mean(0).cpu().numpy()
    return average


def _spread(
    dataset: data.Dataset, learn: Tensor, method: str, settings: Settings, seed: int
) -> float:
    """Spread of a booster's errors on a fifth of the training rows that it did not see."""
    size = len(learn) * 4 // 5
    seen, unseen = learn[:size], learn[size:]
    model: Predictor = train(method, rows_of(dataset, seen), settings, seed)[0]
    error = dataset.y[unseen] - model.predict(dataset.x[unseen], dataset.r[unseen])
    return float(error.square().mean().sqrt())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce open`."""
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=list(OPEN), default=list(OPEN))
    parser.add_argument("--seeds", type=positive_count, default=5, help="splits, from 0")
    add_tune_argument(parser)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the trials and the ensembles that the tables lack."""
    for method in arguments.methods:
        if METHODS[OPEN[method]].boosting:
            try:
                METHODS[OPEN[method]].make()
            except ImportError as error:
                raise Refused(str(error)) from error
    options = {
        (name, method): candidates(name, method, arguments.quick)
        for name in arguments.datasets
        for method in arguments.methods
    }
    stored = read_results(RESULTS / "open_tuning.csv")
    if arguments.tune or arguments.quick:
        searched = [
            Fit("open", name, "default", "tuning", "0", 0, method, settings)
            for (name, method), all_settings in options.items()
            for settings in all_settings
        ]
        stored = run_fits(arguments.output / "open_tuning.csv", searched, run, arguments)
    fits = [
        Fit("open", name, "default", "held-out", str(seed), seed, method, settings)
        for (name, method), all_settings in options.items()
        for settings in [chosen(stored, name, method, all_settings)]
        for seed in range(1 if arguments.quick else arguments.seeds)
    ]
    path: Path = arguments.output / "open.csv"
    table = run_fits(path, fits, run, arguments)
    for name in arguments.datasets:
        shown = table[table["dataset"] == name]
        means = shown.pivot_table("value", "method", "metric", sort=False)
        print(f"\n{TASKS[name].title}, means\n{means.round(4).to_string()}")
    print(f"\nwritten: {path}")
