"""A data set as three tensors."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn


class Rows(NamedTuple):
    """x, r and y of a data set."""

    x: Tensor
    r: Tensor
    y: Tensor


#: Options of `fit` for a training run of a tenth of a second.
QUICK = {"epochs": 3, "batch_size": 64, "num_particles": 8, "progress": False}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that a model has learned."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two models are equal bit for bit."""
    return a.keys() == b.keys() and all(bool((a[name] == b[name]).all()) for name in a)
