"""The inverse of a non-decreasing function, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

#: How far from its starting point a value is searched for, in units of `scale`.
REACH = 2.0**20
_HALVINGS = 60


def smallest_reaching(
    function: Callable[[Tensor], Tensor], target: float, loc: Tensor, scale: Tensor
) -> Tensor:
    """The smallest value [B] at which `function` [B] is at least `target`, by bisection.

    :param function: non-decreasing function of values [B].
    :param loc: where to start, [B]; steps are `scale` times powers of 2.
    :returns: [B]; -inf where the target is reached everywhere in loc -+ REACH * scale, and inf
        where it is reached nowhere.
    """
    low, high = loc - scale, loc + scale
    step = scale
    while step.max() < REACH * scale.max():
        step = 2.0 * step
        below, above = function(low) < target, function(high) >= target
        if (below & above).all():
            break
        low, high = torch.where(below, low, loc - step), torch.where(above, high, loc + step)
    everywhere, nowhere = function(low) >= target, function(high) < target
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        reached = function(middle) >= target
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return high.masked_fill(everywhere, -math.inf).masked_fill(nowhere, math.inf)
