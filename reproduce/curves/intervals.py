"""Intervals of y: those of members beside MAPIE, quantile boosting and NGBoost.

All are asked for intervals that hold 90 % of new outcomes. Ten random 4:1 splits of public sets,
and ten simulated ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from pyro_gcm.estimators import GCMRegressor
from reproduce.curves import judged
from reproduce.curves.distribution import METHODS as DISTRIBUTIONS
from reproduce.data.ordered_data import REAL, SIMULATED, Array, Table
from reproduce.runs import Scores

COVERAGE = 0.9
#: Share of the training rows with which the quantiles of a booster are made conformal.
_CONFORMAL = 0.2
_FOLDS = 10
#: Training rows -> the ends of an interval for each of other rows, [n, 2].
Intervals = Callable[[Table], Array]


def _members(option: str) -> Callable[[Table, int], Intervals]:
    def fit(learn: Table, seed: int) -> Intervals:
        model = GCMRegressor(monotonic_cst=learn.directions, random_state=seed)
        model.fit(learn.columns, learn.y)
        return lambda rows: model.predict_interval(rows.columns, **{option: COVERAGE})

    return fit


def _cross_conformal(learn: Table, seed: int) -> Intervals:
    """CV+ (Barber et al., 2021) around monotone boosting with the defaults of scikit-learn."""
    from mapie.regression import CrossConformalRegressor

    options: Any = {"monotonic_cst": learn.directions, "random_state": seed}
    boosting = HistGradientBoostingRegressor(**options)
    model = CrossConformalRegressor(boosting, COVERAGE, method="plus", cv=_FOLDS)
    model.fit_conformalize(learn.columns, learn.y)
    return lambda rows: model.predict_interval(rows.columns)[1][:, :, 0]


def _quantiles(x: Array, y: Array, seed: int) -> list[Any]:
    """LightGBM for the lower end, the upper end and the median; it takes no directions for them."""
    from lightgbm import LGBMRegressor

    tail = 0.5 * (1.0 - COVERAGE)
    options: Any = {"objective": "quantile", "n_jobs": 1, "verbose": -1, "random_state": seed}
    return [LGBMRegressor(alpha=level, **options).fit(x, y) for level in (tail, 1.0 - tail, 0.5)]


def _quantile_boosting(learn: Table, seed: int) -> Intervals:
    low, high, _ = _quantiles(learn.columns, learn.y, seed)
    return lambda rows: np.stack([low.predict(rows.columns), high.predict(rows.columns)], 1)


def _conformal_quantiles(learn: Table, seed: int) -> Intervals:
    """Conformalised quantile regression (Romano, Patterson and Candes, 2019)."""
    from mapie.regression import ConformalizedQuantileRegressor

    held = np.random.default_rng(seed).permutation(len(learn)) < _CONFORMAL * len(learn)
    models = _quantiles(learn.columns[~held], learn.y[~held], seed)
    model = ConformalizedQuantileRegressor(models, COVERAGE, prefit=True)
    model.conformalize(learn.columns[held], learn.y[held])
    return lambda rows: model.predict_interval(rows.columns)[1][:, :, 0]


def _ngboost(learn: Table, seed: int) -> Intervals:
    predict = DISTRIBUTIONS["NGBoost, normal"](learn, seed)
    tail = 0.5 * (1.0 - COVERAGE)
    return lambda rows: predict(rows).quantiles(np.array([tail, 1.0 - tail]))


METHODS: dict[str, Callable[[Table, int], Intervals]] = {
    "Members, coverage": _members("coverage"),
    "Members, level": _members("level"),
    "MAPIE, CV+ of boosting": _cross_conformal,
    "MAPIE, LightGBM quantiles": _conformal_quantiles,
    "LightGBM quantiles": _quantile_boosting,
    "NGBoost, normal": _ngboost,
}


def scores(ends: Array, learn: Table, test: Table) -> Scores:
    """Coverage, mean width and interval score (Gneiting and Raftery, 2007) of intervals [n, 2].

    Width and score are in standard deviations of the training outcomes.
    """
    low, high = np.sort(ends, 1).T
    outside = np.maximum(low - test.y, 0.0) + np.maximum(test.y - high, 0.0)
    unit, width = float(learn.y.std()), high - low
    return {
        "coverage": float((outside == 0.0).mean()),
        "width": float(width.mean()) / unit,
        "interval score": float((width + 2.0 / (1.0 - COVERAGE) * outside).mean()) / unit,
    }


STUDY = judged.study("intervals", __doc__, [*REAL, SIMULATED], METHODS, scores, "13")
