"""The revenue at which a prediction reaches a level."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._options import number, share
from pyro_gcm._validation import ArrayLike, as_tensor, matrix, positive_int, same_rows
from pyro_gcm.distributions.bisection import smallest_reaching
from pyro_gcm.models.blocks import MovingRevenues
from pyro_gcm.prediction.base_samples import in_blocks
from pyro_gcm.prediction.predicted import FixedNoise


def required_revenue(
    model: Any,
    x: ArrayLike,
    level: float,
    revenue: int,
    r: ArrayLike | None,
    noise: FixedNoise,
) -> Tensor:
    """What `GCM.required_revenue` returns; see there."""
    x = matrix("x", x, model.x_dim, "x_dim", model.device)
    if not model.response.standardizes_revenue:
        raise ValueError("required_revenue needs revenues that are not quantile levels")
    if model.response.is_probability:
        share("level", level, "a probability")
    level = number("level", level)
    revenue = positive_int("revenue", revenue, minimum=0)
    if revenue >= model.r_dim:
        raise ValueError(
            f"revenue index out of range: it must be below r_dim={model.r_dim}, got {revenue}"
        )
    if model.response.directions and model.response.directions[revenue] != 1:
        raise ValueError(
            f"revenue {revenue} must be one in which the prediction rises, got a direction of "
            f"{model.response.directions[revenue]}"
        )
    loc, scale = model.r_standardizer.loc.double(), model.r_standardizer.scale.double()
    rows = _with_start(r, len(x), revenue, loc)
    same_rows(x=x, r=rows)
    column = torch.tensor([revenue], device=rows.device)
    rounded = model.response.prediction_dtype(
        model.dtype
    )  # as the prediction at the result will be

    def block(x: Tensor, r: Tensor) -> Tensor:
        # The costs do not depend on r, nor do the weights of the draws where nothing is missing.
        predictions = MovingRevenues(model, noise, x, r)

        def prediction(value: Tensor) -> Tensor:
            return predictions(r.index_copy(1, column, value[:, None])).to(rounded).double()

        start, step = (unit[revenue].expand(len(x)) for unit in (loc, scale))
        dtype = torch.promote_types(model.dtype, model.r_standardizer.loc.dtype)
        return smallest_reaching(prediction, level, start, step, dtype)

    return in_blocks(block, x, rows, draws=noise.count)


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
