"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_INSIDE = ("pyro", "torch", "contextlib", "functools")  # "pyro" stands for pyro_gcm as well

_TOLD: ContextVar[set[str] | None] = ContextVar("told", default=None)


@contextmanager
def told_once() -> Iterator[None]:
    """Inside, `warn_user` says nothing twice: a fit of several models has one warning."""
    token = _TOLD.set(set() if (told := _TOLD.get()) is None else told)
    try:
        yield
    finally:
        _TOLD.reset(token)


def warn_user(message: str) -> None:
    """Warn at the innermost call that is not inside this package, Pyro or torch."""
    told = _TOLD.get()
    if told is not None:
        if message in told:
            return
        told.add(message)
    level = 1
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
