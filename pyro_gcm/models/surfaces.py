"""Predictions for rows of x at many revenues, and their inverse."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, as_tensor, matrix, positive_int, same_rows
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.numerics import rounded_up
from pyro_gcm.models.objectives import Objective
from pyro_gcm.sampling.base_samples import BLOCK_ROWS, blocks, in_blocks
from pyro_gcm.sampling.bisection import smallest_reaching


class SurfaceDraws(NamedTuple):
    """Predictions given each of N draws: values [N, B, R] and weights [N, B, R] that sum to 1.

    `weights` is None where they are equal.
    """

    values: Tensor
    weights: Tensor | None

    def to(self, device: torch.device) -> SurfaceDraws:
        """The same on another device."""
        weights = None if self.weights is None else self.weights.to(device)
        return SurfaceDraws(self.values.to(device), weights)


def pairs(x: Tensor, revenues: Tensor) -> tuple[Tensor, Tensor]:
    """Every pair of a row of x [B, x_dim] and of revenues [R, r_dim], as B R rows of its own."""
    return x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)


def surface_draws(objective: Objective, x: Tensor, revenues: Tensor, base: Tensor) -> SurfaceDraws:
    """Predictions for every pair, given each draw of the latent variables.

    :param base: base samples [N, 1, E].
    """
    model = objective.model
    values, weights = [], []
    for x_block, r_block in zip(*map(blocks, pairs(x, revenues)), strict=True):
        draws = objective.given_revenue(objective.draw(x_block, base, model.seed), r_block)
        values.append(model.response.predict(draws.event, draws.covariates))
        if draws.log_weights is not None:
            weights.append(draws.log_weights.exp())

    def table(parts: list[Tensor]) -> Tensor:
        rows = torch.cat(parts, 1)[:, : len(x) * len(revenues)]
        return rows.reshape(-1, len(x), len(revenues)).to(base.dtype)

    return SurfaceDraws(table(values), table(weights) if weights else None)


def strict_surface(objective: Objective, x: Tensor, revenues: Tensor, base: Tensor) -> Tensor:
    """The surface of `GCM`, [B, R]: its costs do not depend on r, so that x is encoded once.

    :param x: [B, x_dim] in data units, on the device of the model.
    :param revenues: [R, r_dim].
    :param base: base samples [N, 1, E].
    """
    model = objective.model
    parts = in_blocks(model.mapped, revenues).split(BLOCK_ROWS // 8)

    def block(x: Tensor) -> Tensor:
        draws = objective.draw(x, base, model.seed).against_revenues()
        cost = model.c_dist(draws.z, draws.covariates)  # batch [N, b, 1]
        events = (OrderEvent(cost, part) for part in parts)
        predictions = (model.response.predict(event, draws.covariates) for event in events)
        return torch.cat([draws.mean(values) for values in predictions], dim=-1)

    return in_blocks(block, x).to(base.dtype)


def required_revenue(
    objective: Objective,
    x: ArrayLike,
    level: float,
    revenue: int,
    r: ArrayLike | None,
    base: Tensor,
) -> Tensor:
    """What `GCM.required_revenue` returns; see there."""
    model = objective.model
    x = matrix("x", x, model.x_dim, "x_dim", model.device)
    if not model.response.standardizes_revenue:
        raise ValueError("required_revenue needs revenues that are not quantile levels")
    if model.response.is_probability and not 0.0 < level < 1.0:
        raise ValueError(f"level must be a probability in (0, 1), got {level}")
    if not math.isfinite(level):
        raise ValueError(f"level must be finite, got {level}")
    if positive_int("revenue", revenue, minimum=0) >= model.r_dim:
        raise ValueError(
            f"revenue index out of range: it must be below r_dim={model.r_dim}, got {revenue}"
        )
    loc, scale = model.r_standardizer.loc.double(), model.r_standardizer.scale.double()
    rows = _with_start(r, len(x), revenue, loc)
    same_rows(x=x, r=rows)
    column = torch.tensor([revenue], device=rows.device)

    def block(x: Tensor, r: Tensor) -> Tensor:
        # The costs do not depend on r, nor do the weights of the draws where nothing is missing.
        draws = objective.given_revenue(objective.draw(x, base, model.seed), r)

        def prediction(value: Tensor) -> Tensor:
            mapped = model.mapped(r.index_copy(1, column, value[:, None]))
            event = OrderEvent(draws.cost, mapped)
            return draws.mean(model.response.predict(event, draws.covariates))

        start = [unit[revenue].expand(len(x)) for unit in (loc, scale)]
        return smallest_reaching(prediction, level, *start)

    return rounded_up(in_blocks(block, x, rows), base.dtype)


def _with_start(r: ArrayLike | None, count: int, revenue: int, loc: Tensor) -> Tensor:
    """Revenues [B, m] with the training mean in the column that is searched for."""
    if r is None:
        return loc.expand(count, -1)
    size = len(loc)
    rows: Any = as_tensor("r", r, loc.device).double()
    if rows.dim() == 1:
        if len(rows) not in (size - 1, size):
            raise ValueError(f"r must have {size - 1} or {size} values, got {len(rows)}")
        rows = rows.expand(count, -1)
    if rows.dim() == 2 and rows.shape[1] == size - 1:
        start = loc[revenue].expand(len(rows), 1)
        rows = torch.cat([rows[:, :revenue], start, rows[:, revenue:]], 1)
    elif rows.dim() == 2 and rows.shape[1] == size:
        given = ~rows[:, revenue].isnan()
        if given.any():
            raise ValueError(
                f"r must have NaN in column {revenue}, the revenue that is searched for, or leave "
                f"the column out, got {rows[given, revenue][0].item():g}"
            )
        rows = rows.index_fill(1, torch.tensor([revenue], device=rows.device), loc[revenue].item())
    return matrix("r", rows, size, "r_dim")
