"""Fitted estimators of named columns, and what is computed with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pyro_gcm
from pyro_gcm.estimators import (
    GCMClassifier,
    GCMOrdinal,
    GCMRegressor,
    GCMSurvival,
    IGCMClassifier,
    IGCMRegressor,
)

KINDS = {
    "GCMClassifier": (GCMClassifier, {"members": 2, "class_weight": {"no": 1.0, "yes": 2.0}}),
    "GCMClassifier, bootstrap": (GCMClassifier, {"members": 2, "bootstrap": 2}),
    "GCMClassifier, sampled": (GCMClassifier, {"prior": "conditional"}),
    "GCMRegressor": (GCMRegressor, {"members": 2}),
    "GCMOrdinal": (GCMOrdinal, {"members": 2, "levels": ["no", "yes"]}),
    "GCMSurvival": (GCMSurvival, {"members": 2, "horizon": 3.0}),
    "IGCMClassifier": (IGCMClassifier, {}),
    "IGCMRegressor": (IGCMRegressor, {}),
}


def table(rows: int = 150) -> tuple[pd.DataFrame, pd.Series]:
    """Columns of all kinds, with missing values, and yes or no."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "income": rng.lognormal(10.0, 1.0, rows),
            "debt": rng.uniform(0.0, 50.0, rows),
            "grade": pd.Categorical(rng.choice(list("ABC"), rows), list("CBA"), ordered=True),
            "job": rng.choice(["clerk", "färber", "smith", ""], rows),
            "branch": pd.Categorical(rng.choice([10, 20, 30], rows)),
            "owner": rng.random(rows) < 0.5,
            "years": pd.array(rng.integers(0, 9, rows), dtype="Int64"),
        }
    )
    y = 0.1 * X["debt"] - np.log(X["income"]) + rng.logistic(size=rows) > -7
    X.loc[::9, "income"] = np.nan
    X.loc[::7, ["job", "years"]] = None, pd.NA
    return X, pd.Series(np.where(y, "yes", "no"))


def fitted(name: str) -> Any:
    """An estimator after a few epochs."""
    kind, options = KINDS[name]
    X, y = table()
    if "Regressor" in name:
        y = 3.0 * (y == "yes") + X["debt"]
    if "Survival" in name:
        y = (y == "yes").to_numpy(), 50.0 / (1.0 + X["debt"].to_numpy())
    directions = {"income": -1, "debt": 1, "grade": 1}
    return kind(monotonic_cst=directions, epochs=2, hidden=8, **options).fit(X, y)


def computed(model: Any) -> dict[str, Any]:
    """Arrays of numbers that a user sees."""
    X, _ = table()
    X.loc[3, "job"] = "never seen"
    found = {"predict": np.unique(model.predict(X), return_inverse=True)[-1]}
    if hasattr(model, "predict_proba"):
        found["predict_proba"] = model.predict_proba(X)
    if hasattr(model, "predict_survival_function"):
        found["survival"] = model.predict_survival_function(X[:20], return_array=True)
    if hasattr(model, "required"):
        required = model.required(X[:20], "debt", 0.4)
        found["required"] = required.to_numpy(dtype=float)
        found["response_curve"] = np.asarray(model.response_curve(X[:20], "debt"), dtype=float)
    return found


def main(folder: Path, names: list[str]) -> None:
    """Load every estimator in a folder, and write there what is computed with it."""
    for name in names:
        found = computed(pyro_gcm.load(folder / name))
        np.savez(folder / f"{name}.npz", **found)
