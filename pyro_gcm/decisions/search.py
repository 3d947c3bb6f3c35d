"""The best point of a margin times a rising probability, row by row, with a proof."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: Rising probabilities [J, b] at float64 points [J, b].
Curve = Callable[[Tensor], Tensor]
#: Intervals at the start, intervals of a row that are halved at a time, and points at most.
_START, _AT_ONCE, _MOST = 16, 8, 2048
#: Panels of an area.
_PANELS = 256
#: By how much a probability may fall, as those of other libraries do.
_ROUNDING = 1e-12


def best_margin(curve: Curve, columns: Tensor, tolerance: float) -> Tensor:
    """The t in [low, high] at which (value - t) p(t) is largest, by branch and bound.

    As p rises, (value - t) p(t) is at most (value - a) p(b) for every t between a and b <= value.
    The intervals with the largest bounds are halved until no bound exceeds the best value found by
    more than `tolerance` times that value. What a row gets does not depend on the rows beside it.

    :param columns: value, low and high, [b, 3], with low <= high <= value.
    :returns: t, p(t), (value - t) p(t), and the largest bound less that, [b, 4].
    :raises ValueError: for a curve that falls, or is negative.
    """
    value, low, high = columns.T
    at = _spread(low, high, _START)
    p = _rising(curve(at))
    while True:
        margin, place = ((value - at) * p).max(0)
        bounds = (value - at[:-1]) * p[1:]
        gap = (bounds.amax(0) - margin).clamp(min=0.0)
        undecided = gap > tolerance * margin
        if not undecided.any() or len(at) > _MOST:
            chosen = (each.gather(0, place[None])[0] for each in (at, p))
            return torch.stack([*chosen, margin, gap], 1)
        left = bounds.topk(_AT_ONCE, 0).indices
        middle = torch.lerp(at.gather(0, left), at.gather(0, left + 1), 0.5)
        new = torch.where(undecided, middle, high)  # whose probability is known: nothing changes
        at, order = torch.cat([at, new]).sort(0)
        p = _rising(torch.cat([p, curve(new)]).gather(0, order))


def area_below(curve: Curve, columns: Tensor) -> Tensor:
    """The integral of p between low and high, and how far off it can be.

    As p rises, it lies between the sums of its values at the left and at the right ends of panels.

    :param columns: as of `best_margin`.
    :returns: high, p(high), the mean of both sums, and half of their difference, [b, 4].
    :raises ValueError: for a curve that falls, or is negative.
    """
    _, low, high = columns.T
    at = _spread(low, high, _PANELS)
    p, width = _rising(curve(at)), at.diff(dim=0)
    left, right = ((width * ends).sum(0) for ends in (p[:-1], p[1:]))
    return torch.stack([high, p[-1], 0.5 * (left + right), 0.5 * (right - left)], 1)


def _spread(low: Tensor, high: Tensor, parts: int) -> Tensor:
    """Points [parts + 1, b] from low to high, both included."""
    share = torch.linspace(0.0, 1.0, parts + 1, dtype=low.dtype, device=low.device)
    return torch.lerp(low, high, share[:, None]).sort(0).values


def _rising(p: Tensor) -> Tensor:
    """The probabilities at rising points, if they rise but for rounding and none is negative."""
    if not ((p[0] >= 0.0).all() and (p.diff(dim=0) >= -_ROUNDING).all()):
        raise ValueError(
            "predictor must have predictions of at least 0 that rise with bids, or fall with "
            f"prices, got one of {p.min():g} and a step of {p.diff(dim=0).min():g}"
        )
    return p.cummax(0).values
