"""Rows with targets of every kind, and forms in which targets come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.data import SurvivalTimes

ROWS = 60
_RNG = np.random.default_rng(0)
X = pd.DataFrame({"debt": _RNG.uniform(0.0, 50.0, ROWS), "job": ["clerk", "smith"] * (ROWS // 2)})
LATE = (X["debt"] + _RNG.normal(0.0, 12.0, ROWS) > 25.0).to_numpy()
CAME, TIME = _RNG.random(ROWS) < 0.7, _RNG.exponential(5.0, ROWS) + 0.1
QUICK: dict[str, Any] = {"epochs": 1, "hidden": 8}
SMALL: dict[str, Any] = {**QUICK, "members": 2}
TIMES = SurvivalTimes.right_censored(TIME, CAME)


def masked(values: Any, row: int = 3) -> Any:
    """An array that hides one value."""
    return np.ma.MaskedArray(values, np.arange(len(values)) == row)


def objects(values: Any) -> Any:
    return np.array(list(values), dtype=object)


def structured(event: Any) -> Any:
    pairs = list(zip(event, TIME, strict=True))
    return np.array(pairs, dtype=[("death", event.dtype), ("t", "<f8")])
