"""Models of the zoo on a device, in float32, with a few rows for them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
import zoo
from torch import Tensor
from zoo import Rows

#: Turns a CPU tensor into the form in which a user passes it.
Put = Callable[[Tensor], Any]
#: Kinds that differ in code that makes or moves tensors.
KINDS = [name for name in zoo.KINDS if name not in zoo.AXIS_KINDS]


def few_rows(kind: str, count: int = 3) -> Rows:
    """A few rows, on the CPU."""
    # Pyro's enumeration of one kind fails for rows of another type than the model's.
    dtype = torch.float32 if kind == "implicit, categorical" else torch.float64
    return zoo.rows_of(kind, dtype=dtype).map(lambda column: column[:count])


def untrained(kind: str) -> Any:
    """A model on the CPU."""
    return zoo.build(kind, torch.float32)


def fitted(kind: str, device: Any, put: Put = lambda values: values, **training: Any) -> Any:
    """A new model that was trained on a device, for one step."""
    model = untrained(kind)
    options = {**zoo.KINDS[kind].training, "epochs": 1, "num_particles": 2, **training}
    zoo.quickly(model, few_rows(kind, 32).map(put), device=device, **options)
    return model


@functools.cache
def on(kind: str, device: torch.device | str = "cpu") -> Any:
    """The model that was trained on the CPU, on a device."""
    if str(device) == "cpu":
        return fitted(kind, "cpu")
    return copy.deepcopy(on(kind)).to(device)
