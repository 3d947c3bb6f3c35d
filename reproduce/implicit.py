"""Strict and implicit monotonicity on a real data set, beside monotone gradient boosting."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict
from torch import Tensor

from pyro_gcm import GCM, IGCM, data, fit
from reproduce.arguments import positive_count
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits
from reproduce.scores import binary_scores, continuous_scores
from reproduce.tasks import load

#: Options of the models and of `fit` for each data set, chosen by hand on a few tries of the first
#: splits; what is not named is at its default.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "auto_mpg": {"model": {"hidden": [32]}, "fit": {"epochs": 60, "batch_size": 64}},
    "adult": {"model": {"hidden": 32}, "fit": {"epochs": 15, "batch_size": 512}},
}
ALTERNATIVES = {"alternatives": 3, "costs": 3}
#: Model, its options, and the objective, for each method; the settings are the same.
METHODS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "GCM": (GCM, {}, "conditional"),
    "GCM, 3 alternatives": (GCM, ALTERNATIVES, "conditional"),
    "IGCM": (IGCM, {}, "conditional"),
    "IGCM, 3 alternatives": (IGCM, ALTERNATIVES, "conditional"),
    "IGCM, response and revenue": (IGCM, {}, "response_revenue"),
    "IGCM, paper": (IGCM, {"kernel_guide": "amortised"}, "paper"),
}
BOOSTING = "monotone boosting"


def model_scores(
    dataset: data.Dataset,
    train: Tensor,
    test: Tensor,
    seed: int,
    method: str,
    options: Any,
    device: str = "cpu",
) -> dict[str, float]:
    """Held-out scores of GCM or IGCM."""
    build, extra, objective = METHODS[method]
    model = build(
        dataset.x_dim,
        dataset.r_dim,
        response=dataset.response,
        seed=seed,
        **{**options["model"], **extra},
    )
    rows = [[part[index] for part in (dataset.x, dataset.r, dataset.y)] for index in (train, test)]
    fit(
        model, *rows[0], objective=objective, seed=seed, device=device, progress=False,
        **options["fit"],
    )  # fmt: skip
    x, r, y = (column.to(device) for column in rows[1])
    target = y.cpu().numpy()
    prediction = model.predict(x, r).double().cpu().numpy()
    if dataset.response == "binary":
        return binary_scores(prediction, target)
    log_density, pit = (f(x, r, y).double().cpu().numpy() for f in (model.log_prob, model.cdf))
    return continuous_scores(prediction, log_density, pit, target)


def boosting_scores(
    dataset: data.Dataset, train: Tensor, test: Tensor, seed: int
) -> dict[str, float]:
    """Held-out scores of boosting; a continuous y is normal around its prediction.

    The spread is that of out-of-fold residuals on the training rows.
    """
    columns = torch.cat([dataset.x, dataset.r], dim=1).numpy()
    target = dataset.y.numpy()
    booster = boosting(dataset, seed).fit(columns[train], target[train])
    if dataset.response == "binary":
        return binary_scores(booster.predict_proba(columns[test])[:, 1], target[test])
    out_of_fold = cross_val_predict(boosting(dataset, seed), columns[train], target[train], cv=5)
    spread = np.sqrt(np.mean((out_of_fold - target[train]) ** 2))
    mean = booster.predict(columns[test])
    density = norm(mean, spread)
    return continuous_scores(
        mean, density.logpdf(target[test]), density.cdf(target[test]), target[test]
    )


def boosting(dataset: data.Dataset, seed: int) -> Any:
    """The booster, not trained, for columns x and then r."""
    monotone = [0] * dataset.x_dim + [1] * dataset.r_dim
    continuous = dataset.response == "continuous"
    kind = HistGradientBoostingRegressor if continuous else HistGradientBoostingClassifier
    return kind(monotonic_cst=monotone, random_state=seed)


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One method on one random 4:1 split."""
    dataset = load(fit.dataset, fit.variant)
    train, test = dataset.split(fit.seed)
    start = time.perf_counter()
    if fit.method == BOOSTING:
        scores, epochs = boosting_scores(dataset, train, test, fit.seed), 0
    else:
        options = fit.options
        scores = model_scores(dataset, train, test, fit.seed, fit.method, options, device)
        epochs = options["fit"]["epochs"]
    return {**scores, "seconds": time.perf_counter() - start, "epochs": epochs}


def report(table: pd.DataFrame) -> str:
    """Mean of every score, with the paired difference to GCM and its standard error over splits."""
    wide = table.pivot(index="seed", columns=["metric", "method"], values="value")
    lines = []
    for metric in table["metric"].unique():
        lines.append(metric)
        for method in table["method"].unique():
            values = wide[metric][method]
            if "GCM" not in wide[metric]:
                lines.append(f"  {method:28s}{values.mean():.4f}")
                continue
            gap = values - wide[metric]["GCM"]
            error = gap.std() / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
            difference = "" if method == "GCM" else f"   {gap.mean():+.4f} ± {error:.4f}"
            lines.append(f"  {method:28s}{values.mean():.4f}{difference}")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce implicit`."""
    parser.add_argument("--dataset", choices=list(SETTINGS), required=True)
    parser.add_argument("--splits", type=positive_count, default=3, help="random 4:1 splits")
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, BOOSTING])
    parser.add_argument("--epochs", type=positive_count)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the splits that the table lacks, and print it."""
    settings = SETTINGS[arguments.dataset]
    epochs = 1 if arguments.quick else arguments.epochs
    options = {**settings, "fit": {**settings["fit"], **({"epochs": epochs} if epochs else {})}}
    fits = [
        Fit(
            "implicit",
            arguments.dataset,
            "default",
            "held-out",
            str(seed),
            seed,
            method,
            "{}" if method == BOOSTING else as_json(options),
        )
        for seed in range(1 if arguments.quick else arguments.splits)
        for method in arguments.methods or [*METHODS, BOOSTING]
    ]
    path = arguments.output / f"implicit_{arguments.dataset}.csv"
    table = run_fits(path, fits, run, arguments)
    print(f"\n{arguments.dataset}, {arguments.splits} splits, {options}; differences to GCM")
    print(report(table))
    print(f"\nwritten: {path}")
