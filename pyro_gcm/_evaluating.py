"""Dropout and batch norm as they are after training, for as long as a prediction takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """`module.eval()` inside, every part's own mode again after."""
    training = [part for part in module.modules() if part.training]
    plain = all(map(_only_notes_its_mode, training))
    if plain:  # several times as fast as `eval()`
        for part in training:
            vars(part)["training"] = False
    else:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            if plain:
                vars(part)["training"] = True
            else:
                part.training = True


def _only_notes_its_mode(part: nn.Module) -> bool:
    # A scripted module keeps its mode elsewhere.
    return type(part).train is nn.Module.train and "training" in vars(part)
