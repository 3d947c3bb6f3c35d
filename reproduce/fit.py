"""Train GCM on a real data set, held-out metrics beside monotone gradient boosting."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, root_mean_squared_error
from torch import Tensor

from pyro_gcm import GCM, data, fit
from reproduce.results import RESULTS, Tables, clear_parts, cores, run_parts, versions, write_csv

#: Options of GCM and of `fit` for each data set, chosen by hand from a few tries on the first
#: splits; what is not named is at its default.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "compas": {"model": {}, "fit": {"epochs": 30}},
    "auto_mpg": {"model": {"hidden": [32]}, "fit": {"epochs": 60, "batch_size": 64}},
    "adult": {"model": {"hidden": 32}, "fit": {"epochs": 15, "batch_size": 512}},
}


def metrics(dataset: data.Dataset, prediction: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Held-out metrics: AUC, accuracy and log score in nats, or RMSE in the units of y."""
    if dataset.response == "continuous":
        return {"RMSE": root_mean_squared_error(y, prediction)}
    return {
        "AUC": roc_auc_score(y, prediction),
        "accuracy": accuracy_score(y, prediction > 0.5),
        "log score": -log_loss(y, prediction),
    }


def train_gcm(
    dataset: data.Dataset, train: Tensor, test: Tensor, seed: int, options: dict[str, Any]
) -> np.ndarray:
    """Predictions of GCM for the test rows."""
    model = GCM(
        dataset.x_dim, dataset.r_dim, response=dataset.response, seed=seed, **options["model"]
    )
    with warnings.catch_warnings():
        if options["model"].get("prior") == "standard":  # asked for on the command line
            warnings.filterwarnings("ignore", message="prior='standard'")
        fit(
            model,
            dataset.x[train],
            dataset.r[train],
            dataset.y[train],
            seed=seed,
            device="cpu",
            progress=False,
            **options["fit"],
        )
    return model.predict(dataset.x[test], dataset.r[test]).double().numpy()


def train_boosting(
    dataset: data.Dataset, train: Tensor, test: Tensor, seed: int, options: dict[str, Any]
) -> np.ndarray:
    """Predictions of scikit-learn's monotone gradient boosting at its default settings."""
    columns = torch.cat([dataset.x, dataset.r], dim=1).numpy()
    booster = boosting(dataset, seed).fit(columns[train], dataset.y[train].numpy())
    if dataset.response == "continuous":
        return booster.predict(columns[test])
    return booster.predict_proba(columns[test])[:, 1]


def boosting(dataset: data.Dataset, seed: int) -> Any:
    """The booster, not trained, for columns x and then r."""
    monotone = [0] * dataset.x_dim + [1] * dataset.r_dim
    continuous = dataset.response == "continuous"
    kind = HistGradientBoostingRegressor if continuous else HistGradientBoostingClassifier
    return kind(monotonic_cst=monotone, random_state=seed)


METHODS = {"GCM": train_gcm, "monotone boosting": train_boosting}


def run(name: str, variant: str, method: str, seed: int, options: dict[str, Any]) -> Tables:
    """One method on one random 4:1 split."""
    dataset = data.load(name, variant)
    train, test = dataset.split(seed)
    start = time.perf_counter()
    prediction = METHODS[method](dataset, train, test, seed, options)
    seconds = time.perf_counter() - start
    rows = [
        {
            "experiment": "fit",
            "dataset": name if variant == "default" else f"{name} ({variant})",
            "seed": seed,
            "method": method,
            "setting": json.dumps(options) if method == "GCM" else "defaults",
            "r": "",
            "metric": metric,
            "value": value,
            "seconds": seconds,
            "versions": versions(),
        }
        for metric, value in metrics(dataset, prediction, dataset.y[test].numpy()).items()
    ]
    return {"metrics": rows}


def report(table: pd.DataFrame) -> str:
    """Mean over splits of every metric, and the paired difference with its standard error."""
    wide = table.pivot(index="seed", columns=["metric", "method"], values="value")
    lines = []
    for metric in table["metric"].unique():
        columns = wide[metric]
        cells = "   ".join(f"{method} {columns[method].mean():.4f}" for method in METHODS)
        gap = columns["GCM"] - columns["monotone boosting"]
        error = gap.std() / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
        lines.append(f"{metric:10s}{cells}   difference {gap.mean():+.4f} ± {error:.4f}")
    seconds = table.drop_duplicates(["method", "seed"]).groupby("method")["seconds"].mean()
    timing = "   ".join(f"{method} {seconds[method]:.1f}" for method in METHODS)
    return "\n".join([*lines, f"{'seconds':10s}{timing}"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce fit`."""
    parser.add_argument("--dataset", choices=list(SETTINGS), required=True)
    parser.add_argument("--variant", default="default", help="default or published")
    parser.add_argument("--splits", type=int, default=3, help="number of random 4:1 splits")
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--alternatives", type=int, default=1)
    parser.add_argument("--costs", type=int)
    parser.add_argument("--prior", choices=["conditional", "standard"], default="conditional")
    parser.add_argument("--temperature", type=float, help="factor on the prior's log-density")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes, one a core")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")


def main(arguments: argparse.Namespace) -> None:
    """Run all splits, print the table and write the CSV file."""
    settings = SETTINGS[arguments.dataset]
    model = {
        **settings["model"],
        "alternatives": arguments.alternatives,
        "costs": arguments.costs,
        "prior": arguments.prior,
    }
    training = {**settings["fit"], **({"epochs": arguments.epochs} if arguments.epochs else {})}
    if arguments.temperature:
        training["temperature"] = arguments.temperature
    options = {"model": model, "fit": training}
    parts = [
        {
            "name": arguments.dataset,
            "variant": arguments.variant,
            "method": method,
            "seed": seed,
            "options": options,
        }
        for seed in range(arguments.first_split, arguments.first_split + arguments.splits)
        for method in METHODS
    ]
    tables = run_parts("fit", parts, run, arguments.jobs)
    print(f"\n{arguments.dataset} ({arguments.variant}), {arguments.splits} splits, {options}")
    print(report(tables["metrics"]))
    stem = f"fit_{arguments.dataset}_{arguments.variant}"
    stem += f"_g{arguments.alternatives}" if arguments.alternatives > 1 else ""
    stem += "_literal" if arguments.prior == "standard" else ""
    stem += "_tempered" if arguments.temperature else ""
    stem += f"_from{arguments.first_split}" if arguments.first_split else ""
    write_csv(tables["metrics"], arguments.output / f"{stem}.csv")
    clear_parts("fit")
    print(f"\nwritten: {arguments.output / stem}.csv")
