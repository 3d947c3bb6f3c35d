"""The smallest revenue at which a prediction reaches a level: the inverse of a monotone model."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

#: How far from the middle of the training data a revenue is looked for, in standard deviations.
REACH = 2.0**20
_HALVINGS = 60


def smallest_reaching(
    prediction: Callable[[Tensor], Tensor], level: Tensor, loc: Tensor, scale: Tensor
) -> Tensor:
    """The smallest value [B] at which `prediction` [B] is at least `level`, by bisection.

    :param prediction: non-decreasing function of values [B].
    :param loc: where to start, [B]; steps are `scale` times powers of 2.
    :returns: [B]; -inf and inf where the level is reached everywhere or nowhere in
        loc -+ REACH * scale.
    """
    low, high = loc - scale, loc + scale
    step = scale
    while step.max() < REACH * scale.max():
        step = 2.0 * step
        below, above = prediction(low) < level, prediction(high) >= level
        if (below & above).all():
            break
        low, high = torch.where(below, low, loc - step), torch.where(above, high, loc + step)
    everywhere, nowhere = prediction(low) >= level, prediction(high) < level
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        reached = prediction(middle) >= level
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return high.masked_fill(everywhere, -math.inf).masked_fill(nowhere, math.inf)
