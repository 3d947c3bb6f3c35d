"""Bands of predictions, and what they are bands of."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Bands(NamedTuple):
    """Bands around predictions.

    :param lower: [n], and `upper`: [n]; monotone as predictions are.
    :param draws: what they are bands of, [S, n], each of them monotone.
    :param kind: "members", how far the members of the model disagree; or "bootstrap", how far
        models differ that were fitted on bootstrap samples of the rows.
    :param level: share of the draws inside, at least.
    """

    lower: Array
    upper: Array
    draws: Array
    kind: str
    level: float


def check_level(name: str, level: float) -> float:
    """Return the level of a band or interval, which must lie in (0, 1)."""
    if not isinstance(level, Real) or not 0.0 < level < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), got {level!r}")
    return float(level)


def bands_of(draws: Array, kind: str, level: float) -> Bands:
    """The central band of draws [S, n]: two of their order statistics, without interpolation.

    An order statistic of increasing functions increases, and rounds as they do.
    """
    tail = 0.5 * (1.0 - level)
    lower = np.quantile(draws, tail, axis=0, method="lower")
    upper = np.quantile(draws, 1.0 - tail, axis=0, method="higher")
    return Bands(lower, upper, draws, kind, level)
