"""Observed costs: their check, and draws of the others in the units of the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pyro_gcm._utils.bisection import rounded_up
from pyro_gcm._utils.validation import ArrayLike, as_tensor, matrix, same_rows
from pyro_gcm.nets import Standardizer


def costs_in_units(
    c: Tensor, below: Tensor, r: Tensor, observed: Tensor | None, units: Standardizer
) -> Tensor:
    """Draws of standardised costs in the units of r.

    Rounding does not move a draw across r, and observed costs stay as they are.

    :param c: draws [S, B, m].
    :param below: whether each of them is below its standardised revenue.
    """
    values = units.inverse(c)
    if observed is not None:
        values = torch.where(observed.isnan(), values, observed.to(values.dtype))
    lowest = rounded_up(r, values.dtype)  # the first number of this type that is not below r
    highest = torch.nextafter(lowest, lowest.new_tensor(-math.inf))
    return torch.where(below, torch.minimum(values, highest), torch.maximum(values, lowest))


def checked_costs(c: ArrayLike, r: Tensor | None, y: Tensor | None, r_dim: int) -> Tensor:
    """Observed costs [B, r_dim], NaN for the others, that agree with r [B, r_dim] and y [B].

    y = 1 exactly if all c < r. Nor can a cost and the outcome be known where the revenue is not:
    together they bound it, and draws of what is missing, made without them, would have density 0.

    :raises ValueError: for another shape, and for costs that contradict y.
    """
    c = as_tensor("c", c)
    if c.dim() == 1 and r_dim == 1:
        c = c.unsqueeze(1)
    c = matrix("c", c, r_dim, "r_dim", None if r is None else r.device, missing=True)
    same_rows(c=c, **{name: v for name, v in (("r", r), ("y", y)) if v is not None})
    if r is None or y is None:
        return c
    boundless = (~c.isnan() & r.isnan()).any(-1) & ~y.isnan()
    if boundless.any():
        raise ValueError(
            f"c has values where r is missing in {int(boundless.sum())} rows whose y is known, the "
            f"first in row {int(boundless.nonzero()[0])}: make c or y NaN there"
        )
    unknown = c.isnan() | r.isnan()
    missed = (~unknown & (c >= r)).any(-1)
    sure = (~unknown & (c < r)).all(-1)
    wrong = ((y == 1) & missed) | ((y == 0) & sure)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"c contradicts y in {int(wrong.sum())} rows, the first in row {row}: "
            f"y = {y[row].item():g} with c = {c[row].tolist()} and r = {r[row].tolist()}; y is 1 "
            "exactly if c < r"
        )
    return c
