"""Checks of options that are no data: switches, numbers, functions, modules and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pyro_gcm._utils.validation import kind, shown
from pyro_gcm._utils.writing import usable


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


def function(name: str, value: Any) -> None:
    """Check that the value is a function, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, got {shown(value)}")


def texts(name: str, value: Any) -> None:
    """Check that the value is a sequence of text."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if not several or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} must be a sequence of text, got {shown(value)}")


def share(name: str, value: Any, wanted: str = "a number") -> float:
    """Return the value as a float, which must lie strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be {wanted} in (0, 1), got {shown(value)}")
    return float(value)


def file_of(name: str, value: Any) -> Path:
    """Return the path of a file that is read and written."""
    path = usable(value)
    if path.is_dir():
        raise ValueError(f"{name} must be a file, and {path} is a folder")
    return path


def module_or(name: str, value: Any, default: Callable[..., nn.Module], *arguments: Any) -> Any:
    """A module that was passed, or one that is made of these arguments in the place of None."""
    if value is None:
        return default(*arguments)
    if not isinstance(value, nn.Module):
        raise TypeError(f"{name} must be a torch module, got {kind(value)}")
    return value


def seed_of(value: Any) -> int:
    """Return a seed as torch and numpy take it."""
    whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value % 1 == 0)
    if not whole or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError(f"seed must be an integer of at least 0, got {shown(value)}")
    return int(value)
