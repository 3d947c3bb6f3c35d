"""The inverse of a non-decreasing function, and an integral, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]
#: How far from its starting point a value is searched for by default, in units of `scale`.
REACH = 2.0**20
#: Steps that may interpolate; later ones halve the bracket, so that it gets small in any case.
_INTERPOLATIONS = 40
_FINEST = 2.0**-59
#: Doublings after which the ends of the reach are looked at.
_PATIENCE = 3
#: Where quantiles are first looked for, in standard deviations; how often, and how close to a
#: level, in probits, they come. Probits beyond `_FAR` count as equal.
_STARTS = (0.5, 1.0, 2.0, 4.0, 8.0, 32.0, 2.0**7, 2.0**10, 2.0**15, 2.0**20)
_ROUNDS, _CLOSE, _FAR = 12, 0.1, 8.0
#: Nodes of a panel of an integral.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def smallest_reaching(
    function: Function,
    target: float | Tensor,
    loc: Tensor,
    scale: Tensor,
    dtype: torch.dtype = torch.float64,
    doublings: int = 20,
) -> Tensor:
    """The smallest value [B] at which `function` [B] is at least `target`, a number or [B].

    Chandrupatla's method: inverse quadratic interpolation where three points promise that it
    helps, else bisection, which also finds the edge of a step.

    :param function: non-decreasing function of float64 values [B].
    :param loc: where to start, [B]; steps are `scale` times powers of 2.
    :param dtype: the type of the result, among whose numbers the smallest is meant.
    :param doublings: the search reaches as far as 2**doublings scales, `REACH` by default.
    :returns: [B]; -inf where the target is reached everywhere in that reach, and inf
        where it is reached nowhere. Values closer to each other than 2^-59 scales count as equal.
    """
    loc, scale = loc.double(), scale.double()
    low, high = loc - scale, loc + scale
    at_low, at_high = function(low) - target, function(high) - target
    open_ = torch.ones_like(loc, dtype=torch.bool)
    for power in range(1, doublings + 1):
        above, below = open_ & (at_low >= 0.0), open_ & (at_high < 0.0)
        if power == _PATIENCE:  # most that are left have no bracket
            far = torch.where(above, -scale, scale) * 2.0**doublings + loc
            open_ = (function(far) >= target) != above
            above, below = above & open_, below & open_
        if above.any():
            low = torch.where(above, loc - 2.0**power * scale, low)
            at_low = function(low) - target
        if below.any():
            high = torch.where(below, loc + 2.0**power * scale, high)
            at_high = function(high) - target
        if not (above.any() or below.any()):
            break
    everywhere, nowhere = at_low >= 0.0, at_high < 0.0
    found = _edge(function, target, (low, at_low), (high, at_high), scale, dtype)
    return found.masked_fill(everywhere, -math.inf).masked_fill(nowhere, math.inf)


def _edge(
    function: Function,
    target: float | Tensor,
    below: tuple[Tensor, Tensor],
    above: tuple[Tensor, Tensor],
    scale: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """The smallest number at which the function reaches the target, inside a bracket."""
    lost = (below[1] >= 0.0) | (above[1] < 0.0)
    # `a` is the latest point, the edge is between it and `b`, and `c` was replaced last.
    (a, at_a), (b, at_b) = below, above
    c, at_c = b, at_b
    # A point closer to `a` would leave the other end where it is.
    least = torch.finfo(dtype).eps ** 0.75 * scale
    share = torch.full_like(a, 0.5)
    step = 0
    while True:
        low, high = torch.minimum(a, b), torch.maximum(a, b)
        above_low = torch.nextafter(low, torch.full_like(low, math.inf))
        closed = (high - low <= _FINEST * scale) | (rounded_up(above_low, dtype) >= high)
        if (closed | lost).all():
            return rounded_up(high, dtype)
        new = a + share * (b - a)
        at_new = function(new) - target
        same = (at_new >= 0.0) == (at_a >= 0.0)
        c, at_c = torch.where(same, a, b), torch.where(same, at_a, at_b)
        b, at_b = torch.where(same, b, a), torch.where(same, at_b, at_a)
        a, at_a = new, at_new
        step += 1
        share = (
            torch.full_like(a, 0.5) if step > _INTERPOLATIONS else _share(a, at_a, b, at_b, c, at_c)
        )
        nearest = (least / (b - a).abs()).clamp(max=0.5)
        share = torch.minimum(torch.maximum(share, nearest), 1.0 - nearest)


def _share(a: Tensor, at_a: Tensor, b: Tensor, at_b: Tensor, c: Tensor, at_c: Tensor) -> Tensor:
    """Where the next point lies between a and b: 1/2 for the middle."""
    place, value = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    smooth = (value.square() < place) & ((1.0 - value).square() < 1.0 - place)
    quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c)
    quadratic = quadratic + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    return torch.where(smooth, quadratic, 0.5)


def rounded_up(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest number of a floating-point type that is at least the value."""
    nearest = values.to(dtype)
    return torch.where(
        nearest < values, torch.nextafter(nearest, nearest.new_tensor(math.inf)), nearest
    )


def integral(function: Function, ends: Tensor) -> Tensor:
    """Integral [b] between the first and the last of rising ends [K, b], panel by panel.

    :param function: of points [J, b].
    """
    half, middle = 0.5 * ends.diff(dim=0), 0.5 * (ends[1:] + ends[:-1])
    nodes, weights = (ends.new_tensor(v)[:, None, None] for v in (_NODES, _WEIGHTS))
    points = (middle + nodes * half).flatten(0, 1)
    return (weights * half * function(points).reshape(-1, *half.shape)).sum((0, 1))


def near_quantiles(value: Function, cdf: Function, levels: Tensor) -> Tensor:
    """Rising y [L, b] at which a distribution function is close to levels [L, b].

    They are looked for in probits, in which most distribution functions are nearly straight
    lines, between the closest points that are known. A row that is close enough stays as it is,
    whatever rows are beside it.

    :param value: y at its number of standard deviations.
    """
    wanted = torch.special.ndtri(levels)
    steps = levels.new_tensor(_STARTS)
    known = torch.cat([-steps.flip(0), steps.new_zeros(1), steps])[:, None].repeat(1, len(levels.T))
    at_known = _probit(cdf(value(known)))
    found, open_ = torch.zeros_like(levels), levels[0] > 0.0
    for _ in range(_ROUNDS):
        above = torch.searchsorted(at_known.T.contiguous(), wanted.T.contiguous()).T
        above = above.clamp(1, len(known) - 1)
        low, high = known.gather(0, above - 1), known.gather(0, above)
        at_low, at_high = at_known.gather(0, above - 1), at_known.gather(0, above)
        part = ((wanted - at_low) / (at_high - at_low)).nan_to_num(0.5).clamp(0.0, 1.0)
        found = torch.where(open_, low + part * (high - low), found)
        at_found = _probit(cdf(value(found)))
        open_ = open_ & ((at_found - wanted).abs() > _CLOSE).any(0)
        if not open_.any():
            break
        known, order = torch.cat([known, found]).sort(0)
        at_known = torch.cat([at_known, at_found]).gather(0, order)
    return value(found)


def _probit(p: Tensor) -> Tensor:
    return torch.special.ndtri(p).clamp(-_FAR, _FAR)
