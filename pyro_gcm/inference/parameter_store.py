"""Whether a program announces its parameters to Pyro's store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pyro
from torch import nn

_announces = ContextVar("announces_parameters", default=True)


def announce(name: str, module: nn.Module) -> None:
    """`pyro.module`, so that `pyro.infer.SVI` finds the parameters; not inside `unannounced`."""
    if _announces.get():
        pyro.module(name, module)


def is_announcing() -> bool:
    """Whether `announce` does anything: not inside `unannounced`."""
    return _announces.get()


@contextmanager
def unannounced() -> Iterator[None]:
    """For a trainer that holds the parameters itself: saves a message a parameter and run."""
    token = _announces.set(False)
    try:
        yield
    finally:
        _announces.reset(token)
