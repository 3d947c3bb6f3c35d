"""A data set as three tensors."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Rows(NamedTuple):
    """x, r and y of a data set."""

    x: Tensor
    r: Tensor
    y: Tensor


#: Options of `fit` for a training run of a tenth of a second.
QUICK = {"epochs": 3, "batch_size": 64, "num_particles": 8, "progress": False}
