"""The estimator of a practitioner on the raw columns of public loans, beside monotone boosting.

Every method has its defaults, the same directions by name, and the columns as they come: text,
categories and missing values. Five random 4:1 splits.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from pyro_gcm.data import load_loans
from pyro_gcm.data.loaders.loan_psds import DIRECTIONS
from pyro_gcm.estimators import GCMClassifier
from reproduce.arguments import Refused, positive_count
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits
from reproduce.scores import binary_scores
from reproduce.tables import every_metric

#: Rows of --quick.
QUICK_ROWS = 400


@functools.cache
def loans() -> tuple[pd.DataFrame, pd.Series]:
    """The table, and whether a loan defaulted."""
    table, outcome = load_loans()
    return table, (outcome == "default").astype(int)


def _gcm(device: str, seed: int) -> Any:
    return GCMClassifier(monotonic_cst=DIRECTIONS, device=device, random_state=seed)


def _hist(device: str, seed: int) -> Any:
    return HistGradientBoostingClassifier(monotonic_cst=DIRECTIONS, random_state=seed)


def _constraints() -> list[int]:
    """A direction for every column, in their order."""
    return [DIRECTIONS.get(str(name), 0) for name in loans()[0]]


def _lightgbm(device: str, seed: int) -> Any:
    from lightgbm import LGBMClassifier

    options: Any = {"n_jobs": 1, "verbose": -1, "random_state": seed}
    return LGBMClassifier(monotone_constraints=_constraints(), **options)


def _xgboost(device: str, seed: int) -> Any:
    from xgboost import XGBClassifier

    options: Any = {"enable_categorical": True, "n_jobs": 1, "random_state": seed}
    return XGBClassifier(monotone_constraints=tuple(_constraints()), **options)


#: Name -> function (device, seed) -> estimator.
METHODS: dict[str, Callable[[str, int], Any]] = {
    "GCMClassifier": _gcm,
    "HistGradientBoosting": _hist,
    "LightGBM": _lightgbm,
    "XGBoost": _xgboost,
}


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    table, y = loans()
    order = np.random.default_rng(int(fit.split)).permutation(len(table))
    order = order[: fit.options.get("rows")]
    test, learn = np.split(order, [len(order) // 5])
    model = METHODS[fit.method](device, fit.seed)
    start = time.process_time()
    model.fit(table.iloc[learn], y.iloc[learn])
    spent = time.process_time() - start
    probability = model.predict_proba(table.iloc[test])[:, 1]
    scores = binary_scores(probability, y.iloc[test].to_numpy())
    epochs = int(getattr(model, "n_iter_", 0))
    return {**scores, "fit seconds": spent, "seconds": spent, "epochs": epochs}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce loans`."""
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=positive_count, default=5)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the table lacks, and print it."""
    torch.set_num_threads(1)
    settings = as_json({"rows": QUICK_ROWS} if arguments.quick else {})
    fits = [
        Fit("loans", "loan_psds", "raw", "held-out", str(split), split, method, settings)
        for split in range(1 if arguments.quick else arguments.splits)
        for method in arguments.methods
    ]
    try:
        table = run_fits(arguments.output / "loans.csv", fits, run, arguments)
    except ImportError as error:
        raise Refused(f"{error}: pip install pyro-gcm[boosting]") from error
    print(f"\n{every_metric(table)}\n\nwritten: {arguments.output / 'loans.csv'}")
