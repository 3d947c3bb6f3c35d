"""Rows (x, r, y) and the costs that were seen, checked against a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, matrix, same_rows, vector


def checked_data(
    model: Any,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    c: ArrayLike | None,
    *,
    missing: bool,
    device: torch.device | None = None,
) -> dict[str, Tensor]:
    """Columns x, r, y and, if it is given, c, in the order that programs take them.

    :param missing: whether x and r may be NaN where a value is missing.
    :param device: where the columns have to be; on the CPU by default, wherever they came from.
    :raises ValueError: for wrong shapes or values.
    """
    data = {
        "x": matrix("x", x, model.x_dim, "x_dim", device, missing=missing),
        "r": matrix("r", r, model.r_dim, "r_dim", device, missing=missing),
        "y": vector("y", y, device, missing=c is not None),
    }
    same_rows(**data)
    model.response.check_revenue(data["r"])
    model.response.check_outcome(data["y"])
    target = device or torch.device("cpu")
    data = {name: column.to(target) for name, column in data.items()}
    if c is not None:
        data["c"] = model.check_costs(c, data["r"], data["y"]).to(target)
    return data
