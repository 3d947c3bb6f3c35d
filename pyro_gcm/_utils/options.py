"""Checks of options that are no data: switches, numbers, functions, names, modules and paths."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from torch import nn

from pyro_gcm._utils import paths
from pyro_gcm._utils.validation import kind, positive_int, shown

Function = TypeVar("Function", bound=Callable[..., Any])


def checks(**of: Callable[[str, Any], Any]) -> Callable[[Function], Function]:
    """Decorator that checks arguments by name, each by a function (name, value), before the call.

    An argument that is left out, or None where that is its default, is not checked.
    """

    def decorate(called: Function) -> Function:
        signature = inspect.signature(called)

        @functools.wraps(called)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in of and value is not signature.parameters[name].default:
                    of[name](name, value)
            return called(*args, **kwargs)

        return cast(Function, checked)

    return decorate


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


def text(name: str, value: Any) -> None:
    """Check that the value is text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {shown(value)}")


def texts(name: str, value: Any) -> None:
    """Check that the value is a sequence of text."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if not several or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} must be a sequence of text, got {shown(value)}")


def mapping(name: str, value: Any) -> None:
    """Check that the value is a mapping of names."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{name} must be a mapping of names, got {shown(value)}")


def share(name: str, value: Any, wanted: str = "a number") -> float:
    """Return the value as a float, which must lie strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be {wanted} in (0, 1), got {shown(value)}")
    return float(value)


def shape_of(name: str, value: Any) -> tuple[int, ...]:
    """Return a shape: a tuple or a list of sizes."""
    if not isinstance(value, tuple | list):
        raise TypeError(f"{name} must be a tuple of sizes, got {shown(value)}")
    return tuple(positive_int(name, size, minimum=0) for size in value)


def a_model(name: str, value: Any) -> None:
    """Check that the value is a model, of which the sizes are known."""
    if isinstance(value, type) or not hasattr(value, "x_dim"):
        raise TypeError(f"{name} must be a GCM or an IGCM, got {kind(value)}")


def text_or_none(name: str, value: Any) -> str | None:
    """Return a name, or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {shown(value)}")
    return value


def path_of(name: str, value: Any) -> Path:
    """Return the path of a file or a folder, which the system can have."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} must be a path, got {shown(value)}")
    try:
        return paths.usable(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error


def file_of(name: str, value: Any) -> Path:
    """Return the path of a file that is read and written."""
    path = path_of(name, value)
    if path.is_dir():
        raise ValueError(f"{name} must be a file, and {path} is a folder")
    return path


def output_of(name: str, value: Any) -> Path:
    """Return the path of a file that can be written."""
    path = path_of(name, value)
    paths.check_writable(path)
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
