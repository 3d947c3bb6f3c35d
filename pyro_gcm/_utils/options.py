"""Checks of options that are no data: switches, numbers and seeds."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from pyro_gcm._utils.validation import shown


def flag(name: str, value: Any) -> bool:
    """Return True or False, of Python or numpy; text such as "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return the value as a finite float, which must lie in [low, high]."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not low <= value <= high or not abs(value) < math.inf:
        ends = {(False, False): "", (True, False): f" of at least {low:g}"}
        wanted = ends.get((low > -math.inf, high < math.inf), f" in [{low:g}, {high:g}]")
        raise ValueError(f"{name} must be a finite number{wanted}, got {shown(value)}")
    return float(value)


def share(name: str, value: Any, wanted: str = "a number") -> float:
    """Return the value as a float, which must lie strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be {wanted} in (0, 1), got {shown(value)}")
    return float(value)


def seed_of(value: Any) -> int:
    """Return a seed as torch and numpy take it."""
    whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value % 1 == 0)
    if not whole or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError(f"seed must be an integer of at least 0, got {shown(value)}")
    return int(value)
