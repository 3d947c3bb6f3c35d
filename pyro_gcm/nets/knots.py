"""Knots of piecewise linear functions of one column, at quantiles of its rows."""

from __future__ import annotations

from bisect import bisect_left

import torch
from torch import Tensor


def quantile_knots(column: Tensor, size: int, min_rows: int = 1) -> Tensor:
    """Increasing knots at quantiles of the rows, or at every value if there are few.

    The count of a value is limited to that of one knot, so that a frequent value takes one knot and
    leaves the others to the remaining values.

    :param column: rows [n]; NaN is ignored.
    :param size: the most knots, at least 2.
    :param min_rows: rows from every knot up to the next one, and from the last one on.
    :returns: [at most size], in the dtype of the column.
    """
    rows = column[~column.isnan()]
    values, counts = rows.unique(return_counts=True)
    if min_rows > 1:
        kept = _with_enough_rows(counts, min_rows)
        ends = counts.cumsum(0)[torch.cat([kept[1:], kept.new_tensor([len(counts)])]) - 1]
        values, counts = values[kept], ends.diff(prepend=ends.new_zeros(1))
    if len(values) <= size:
        return values
    weight = counts.double().clamp(max=len(rows) / size).cumsum(0)
    step = torch.arange(size, device=weight.device)
    targets = weight[0] + (weight[-1] - weight[0]) * step / (size - 1)
    place = (torch.searchsorted(weight, targets) - step).cummax(0).values + step
    return values[torch.minimum(place, len(values) - size + step)]


def _with_enough_rows(counts: Tensor, min_rows: int) -> Tensor:
    """Places of the values that are kept, the first among them."""
    before = [0, *counts.cumsum(0).tolist()]  # rows below each value, and all rows
    kept, total = [0], before[-1]
    while True:
        place = bisect_left(before, before[kept[-1]] + min_rows)
        if place >= len(counts) or total - before[place] < min_rows:
            return torch.tensor(kept, device=counts.device)
        kept.append(place)


def padded_knots(column: Tensor, size: int, min_rows: int = 1) -> Tensor:
    """`quantile_knots` [size], the last of which is repeated if there are fewer."""
    knots = quantile_knots(column, size, min_rows)
    return torch.cat([knots, knots[-1:].expand(size - len(knots))])


def slopes_between(knots: Tensor) -> Tensor:
    """1 / distance of neighbouring knots [..., J + 1], 0 where they are equal, [..., J]."""
    width = knots.diff()
    return torch.where(width > 0.0, 1.0 / width, 0.0)


def ramps(values: Tensor, knots: Tensor, slopes: Tensor) -> Tensor:
    """Ramps from 0 to 1 between neighbouring knots of each column, [..., m] -> [..., m, J].

    :param knots: [m, J + 1]; `slopes`: [m, J], from `slopes_between`.
    """
    low, high = knots[:, :-1], knots[:, 1:]
    inside = torch.minimum(torch.maximum(values.unsqueeze(-1), low), high)
    return (inside - low) * slopes
