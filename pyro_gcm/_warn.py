"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_INSIDE = ("pyro", "torch", "contextlib", "functools")  # "pyro" stands for pyro_gcm as well


def warn_user(message: str) -> None:
    """Warn at the innermost call that is not inside this package, Pyro or torch."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
