"""The smallest revenue at which a prediction reaches a level: the inverse of a monotone model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, as_tensor, matrix, positive_int, same_rows
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.numerics import rounded_up
from pyro_gcm.inference.common_noise import in_blocks
from pyro_gcm.models.responses import Binary

if TYPE_CHECKING:
    from pyro_gcm.models.gcm import GCM

#: How far from the middle of the training data a revenue is looked for, in standard deviations.
REACH = 2.0**20
_HALVINGS = 60


def required_revenue(
    model: GCM,
    x: ArrayLike,
    level: float,
    revenue: int,
    r: ArrayLike | None,
    num_samples: int | None,
) -> Tensor:
    """What `GCM.required_revenue` returns; see there."""
    x = matrix("x", x, model.x_dim, "x_dim", model.device)
    if not model.response.standardizes_revenue:
        raise ValueError("required_revenue needs revenues that are not quantile levels")
    if isinstance(model.response, Binary) and not 0.0 < level < 1.0:
        raise ValueError(f"level must be a probability in (0, 1), got {level}")
    if not math.isfinite(level):
        raise ValueError(f"level must be finite, got {level}")
    if positive_int("revenue", revenue, minimum=0) >= model.r_dim:
        raise ValueError(f"revenue must be below r_dim={model.r_dim}, got {revenue}")
    loc, scale = model.r_standardizer.loc.double(), model.r_standardizer.scale.double()
    rows = loc if r is None else as_tensor("r", r, model.device).double()
    rows = rows.expand(len(x), -1) if rows.dim() == 1 else rows
    # What is looked for may be given, or missing. Nothing else may: see `GCM`.
    column = torch.tensor([revenue], device=rows.device)
    if rows.dim() == 2 and rows.shape[1] == model.r_dim:
        rows = rows.index_fill(1, column, loc[revenue].item())
    rows = matrix("r", rows, model.r_dim, "r_dim", model.device)
    same_rows(x=x, r=rows)
    noise = model._noise(num_samples)

    def block(x: Tensor, r: Tensor) -> Tensor:
        # The costs do not depend on r, nor do the weights of the draws where nothing is missing.
        event, encoded = model._event(model._encode(x, noise), r)

        def prediction(value: Tensor) -> Tensor:
            mapped = model._mapped(r.index_copy(1, column, value[:, None]))
            return model._average(OrderEvent(event.cost, mapped), encoded)

        start = [unit[revenue].expand(len(x)) for unit in (loc, scale)]
        return smallest_reaching(prediction, level, *start)

    return rounded_up(in_blocks(block, x, rows), noise.dtype)


def smallest_reaching(
    prediction: Callable[[Tensor], Tensor], level: float, loc: Tensor, scale: Tensor
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
