"""The estimator of a practitioner on the raw columns of public loans, beside monotone boosting.

Every method has its defaults, the same directions by name, and the columns as they come: text,
categories and missing values. Five random 4:1 splits.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from pyro_gcm.data import load_loans
from pyro_gcm.data.loaders.loan_psds import DIRECTIONS
from pyro_gcm.estimators import GCMClassifier
from reproduce.rendering.tables import every_metric
from reproduce.runs import Fit, Scores
from reproduce.scores import binary_scores
from reproduce.study import Study

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


STUDY = Study(
    *("loans", str(__doc__), {"loan_psds": "Loan (stand-in)"}, METHODS, run, every_metric),
    count=5,
    variant="raw",
    quick={"rows": QUICK_ROWS},
)
