"""Fitted estimators of named columns, and what is computed with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from loans import loans

from pyro_gcm.estimators import (
    GCMClassifier,
    GCMCounter,
    GCMOrdinal,
    GCMRegressor,
    GCMSurvival,
    IGCMClassifier,
    IGCMRegressor,
)

KINDS = {
    "GCMClassifier": (GCMClassifier, {"members": 2, "class_weight": {"no": 1.0, "yes": 2.0}}),
    "GCMClassifier, sampled": (GCMClassifier, {"prior": "conditional"}),
    "GCMCounter": (GCMCounter, {"members": 2}),
    "GCMRegressor": (GCMRegressor, {"members": 2}),
    "GCMRegressor, distribution": (GCMRegressor, {"members": 2, "response": "distribution"}),
    "GCMOrdinal": (GCMOrdinal, {"members": 2, "levels": ["no", "yes"]}),
    "GCMSurvival": (GCMSurvival, {"members": 2, "horizon": 3.0}),
    "IGCMClassifier": (IGCMClassifier, {}),
    "IGCMRegressor": (IGCMRegressor, {}),
}


def table(rows: int = 90) -> tuple[pd.DataFrame, pd.Series]:
    """Columns of all kinds, with missing values, and yes or no."""
    X, y = loans(rows)
    X = X.assign(
        debt=X["debt"].fillna(25.0),
        grade=X["grade"].cat.reorder_categories(list("CBA")),
        job=X["job"].replace({"farmer": "färber", "smith": ""}),
        branch=pd.Categorical(np.resize([10, 20, 30], rows)),
        owner=X["years"] > 14,
        years=X["years"].astype("Int64").where(X.index % 7 > 0),
    )
    return X, pd.Series(y)


def fitted(name: str) -> Any:
    """An estimator after a few epochs."""
    kind, options = KINDS[name]
    X, y = table()
    if "Regressor" in name:
        y = 3.0 * (y == "yes") + X["debt"]
    if "Counter" in name:
        y = (X["debt"] // 10).to_numpy()
    if "Survival" in name:
        y = (y == "yes").to_numpy(), 50.0 / (1.0 + X["debt"].to_numpy())
    directions = {"income": -1, "debt": 1, "grade": 1}
    return kind(monotonic_cst=directions, epochs=2, hidden=8, **options).fit(X, y)


#: What a user asks for of all rows, of each kind that has it.
QUESTIONS = (
    *("predict", "predict_proba", "predict_cumulative", "predict_median", "predict_interval"),
    "predict_quantiles",
)


def computed(model: Any) -> dict[str, Any]:
    """Arrays that a user sees."""
    X = table()[0][:30]
    X.loc[3, "job"] = "never seen"
    arrays = {name: getattr(model, name)(X) for name in QUESTIONS if hasattr(model, name)}
    if hasattr(model, "log_prob"):
        arrays["log_prob"] = model.log_prob(X, X["debt"].round())
    if hasattr(model, "predict_survival_function"):
        arrays["survival"] = model.predict_survival_function(X, return_array=True)
    # The mean of a whole distribution is found for each level by itself, which takes a minute.
    if hasattr(model, "required") and getattr(model, "response", None) != "distribution":
        arrays["required"] = model.required(X[:3], "debt", 0.4)["required"].to_numpy()
        arrays["response_curve"] = model.response_curve(X[:3], "debt").to_numpy()
    return arrays
