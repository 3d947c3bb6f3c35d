"""Columns x, r, y and the observed costs, checked against a model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, matrix, same_rows, vector


def checked_data(
    model: Any,
    x: ArrayLike | None,
    r: ArrayLike | None = None,
    y: ArrayLike | None = None,
    c: ArrayLike | None = None,
    *,
    missing: Collection[str] = (),
    device: torch.device | None = None,
) -> dict[str, Tensor]:
    """The columns that are given, as tensors, in the order in which programs take them.

    :param model: has `x_dim`, `r_dim`, a `response` that checks r and y, and `check_costs`.
    :param missing: which of "x" and "r" may be NaN where a value is missing.
    :param device: where the columns are moved to; by default they stay where they are.
    :raises ValueError: for wrong shapes or values.
    """
    data = {}
    if x is not None:
        data["x"] = matrix("x", x, model.x_dim, "x_dim", device, missing="x" in missing)
    if r is not None:
        data["r"] = matrix("r", r, model.r_dim, "r_dim", device, missing="r" in missing)
        model.response.check_revenue(data["r"])
    if y is not None:
        data["y"] = vector("y", y, device, missing=c is not None)
        model.response.check_outcome(data["y"])
    same_rows(**data)
    if c is not None:
        data["c"] = model.check_costs(c, data.get("r"), data.get("y"))
    return data
