"""The columns of predictions that each kind of estimator has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.estimators.kinds import kind_of, monotone_prediction

#: Rows that are predicted at once; the predictions are the same for any number.
BLOCK = 8192

Columns = dict[str, npt.NDArray[Any]]


def has_quantiles(estimator: Any) -> bool:
    """Whether the estimator predicts quantiles, of y or of the time of the event."""
    return hasattr(estimator, "predict_quantiles") or hasattr(estimator, "predict_quantile")


def quantile_names(quantiles: Sequence[float]) -> list[str]:
    """The names of the columns of quantiles, such as "q0.1".

    :raises ValueError: for quantiles that would have the same name.
    """
    names = [f"q{q:g}" for q in quantiles]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"quantiles must differ in six digits, got two that are {twice[0]}")
    return names


def predictions(
    estimator: Any, X: Any, quantiles: Sequence[float] = (), labels: Sequence[Any] | None = None
) -> Columns:
    """The columns of predictions, by name, for a table X of n rows.

    - Of a classifier: `probability` (of the event) and `class`.
    - Of a regressor: `mean`, and `q0.1` and so on for the quantiles.
    - Of survival: `risk` (of an event by the horizon), the `median` time, and quantiles of it.
    - Of an ordinal estimator: `probability_` and each level, the most probable `level`, the
      `median` level, and `mean_place`.

    :param labels: what the classes or levels are called; as in `fit` by default.
    """
    kind, one = kind_of(estimator), monotone_prediction(estimator, X)
    if kind in ("classifier", "ordinal"):
        names = estimator.classes_ if labels is None else np.array(list(labels), dtype=object)
        if kind == "classifier":
            column = estimator.event_column_
            return {"probability": one, "class": names[np.where(one > 0.5, column, 1 - column)]}
        shares = estimator.predict_proba(X)
        return {
            **{f"probability_{name}": shares[:, at] for at, name in enumerate(names)},
            "level": estimator.predict(X),
            "median": estimator.predict_median(X),
            "mean_place": one,
        }
    if kind == "survival":
        found = {"risk": one, "median": estimator.predict_median(X)}
        values = estimator.predict_quantile(X, quantiles) if quantiles else None
    else:
        found = {"mean": one}
        values = estimator.predict_quantiles(X, quantiles) if quantiles else None
    if values is None:
        return found
    return {**found, **dict(zip(quantile_names(quantiles), values.T, strict=True))}
