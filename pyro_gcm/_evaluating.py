"""Dropout and batch norm as they are after training, for as long as a prediction takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """`module.eval()` inside, every part's own mode again after."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
