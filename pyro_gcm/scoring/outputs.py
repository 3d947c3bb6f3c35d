"""The columns of predictions that each kind of estimator has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: Rows that are predicted at once; the predictions are the same for any number.
BLOCK = 8192

Columns = dict[str, npt.NDArray[Any]]


def has_quantiles(estimator: Any) -> bool:
    """Whether the estimator predicts quantiles, of y or of the time of the event."""
    return hasattr(estimator, "predict_quantiles") or hasattr(estimator, "predict_quantile")


def monotone(estimator: Any, X: Any) -> npt.NDArray[np.float64]:
    """The one prediction that is monotone: a probability, a mean, a mean place or a risk, [n]."""
    found: npt.NDArray[np.float64]
    if hasattr(estimator, "predict_mean"):  # of an ordinal y, the mean place of its level
        found = estimator.predict_mean(X)
    elif hasattr(estimator, "predict_proba"):
        found = estimator.predict_proba(X)[:, 1]
    else:
        found = estimator.predict(X)
    return found


def predictions(
    estimator: Any, X: Any, quantiles: Sequence[float] = (), labels: Sequence[Any] | None = None
) -> Columns:
    """The columns of predictions, by name, for a table X of n rows.

    - Of a classifier: `probability` (of its second class) and `class`.
    - Of a regressor: `mean`, and `q0.1` and so on for the quantiles.
    - Of survival: `risk` (of an event by the horizon), the `median` time, and quantiles of it.
    - Of an ordinal estimator: `probability_` and each level, the most probable `level`, the
      `median` level, and `mean_place`.

    :param labels: what the classes or levels are called; as in `fit` by default.
    """
    if hasattr(estimator, "predict_proba"):
        names = estimator.classes_ if labels is None else np.array(list(labels), dtype=object)
        if not hasattr(estimator, "predict_mean"):
            probability = monotone(estimator, X)
            return {"probability": probability, "class": names[(probability > 0.5).astype(int)]}
        shares = estimator.predict_proba(X)
        return {
            **{f"probability_{name}": shares[:, at] for at, name in enumerate(names)},
            "level": estimator.predict(X),
            "median": estimator.predict_median(X),
            "mean_place": monotone(estimator, X),
        }
    if hasattr(estimator, "predict_quantile"):
        found = {"risk": monotone(estimator, X), "median": estimator.predict_median(X)}
        values = estimator.predict_quantile(X, quantiles) if quantiles else None
    else:
        found = {"mean": monotone(estimator, X)}
        values = estimator.predict_quantiles(X, quantiles) if quantiles else None
    if values is None:
        return found
    return {**found, **{f"q{q:g}": column for q, column in zip(quantiles, values.T, strict=True)}}
