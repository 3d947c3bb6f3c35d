"""Arguments of the figures of costs: a row, indices of costs, revenues and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import ArrayLike, as_tensor, matrix
from pyro_gcm.distributions.joint import LatentMixture
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.nets import Identity
from pyro_gcm.plots._axes import Array, is_index, numbers
from pyro_gcm.responses import AxisResponse

Index = tuple[int, ...]


def single_row(model: GCM | IGCM, x: ArrayLike) -> Tensor:
    """x as a tensor [1, x_dim]; the model checks the number of columns and the values."""
    row = as_tensor("x", x, model.device)
    row = row[None] if row.dim() == 1 else row
    if row.dim() != 2 or len(row) != 1:
        raise ValueError(
            f"x must be one row, [{model.x_dim}] or [1, {model.x_dim}], got {tuple(row.shape)}"
        )
    return row


def cost_index(name: str, value: Any, shape: tuple[int, ...]) -> Index:
    """The index (k,) or (g, k) of a cost, from a number k (of alternative 0) or a pair (g, k)."""
    index = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(index) == 1 and len(shape) == 2:
        index = (0, *index)
    if len(index) != len(shape) or not all(map(is_index, index, shape)):
        wanted = f"in 0..{shape[-1] - 1}"
        if len(shape) == 2:
            wanted = f"{wanted}, or (alternative in 0..{shape[0] - 1}, cost {wanted})"
        raise ValueError(f"{name} must be the index of a cost, {wanted}, got {value!r}")
    return tuple(int(i) for i in index)


def thresholds(model: GCM | IGCM, r: ArrayLike, indices: Sequence[Index]) -> list[float]:
    """The values with which the costs are compared at revenues r, in the units of `model.cost`."""
    if not isinstance(model, GCM):
        raise ValueError(
            f"r must be omitted for an {type(model).__name__}: its costs are compared with the "
            "kernel k, which r does not determine"
        )
    if isinstance(model.response, AxisResponse) or model.members:
        why = "members have maps of their own" if model.members else "y moves the revenues"
        raise ValueError(f"r must be omitted for this model: {why}, so that it is no one threshold")
    r = as_tensor("r", r, model.device)
    if r.dim() == 0 and len(indices) == 1 and (model.costs_have_units or model.r_dim == 1):
        r = r.expand(model.r_dim)
    if r.dim() == 0:
        raise ValueError(f"r must be a vector of the {model.r_dim} revenues, got one number")
    r = matrix("r", r[None] if r.dim() == 1 else r, model.r_dim, "r_dim", model.device)
    if len(r) != 1:
        raise ValueError(f"r must be one row of {model.r_dim} revenues, got {len(r)} rows")
    model.response.check_revenue(r)
    if not model.costs_have_units:
        with evaluating(model):
            r = model.revenue_map(model.r_standardizer(r))
    return [float(r.reshape(model.cost_shape)[index]) for index in indices]


def draws_of(draws: ArrayLike, mixture: LatentMixture, indices: Sequence[Index]) -> Array:
    """Draws of these costs, [S, number of costs]; infinite values are kept."""
    values, event = numbers("draws", draws), tuple(mixture.event_shape)
    alone = () if len(indices) == 1 else (len(indices),)
    if values.size == 0 or values.ndim == 0 or values.shape[1:] not in (alone, (1, *event)):
        raise ValueError(
            f"draws must have shape {['S', *alone]}, or {['S', 1, *event]} for all costs of the "
            f"row, got {values.shape}"
        )
    if np.isnan(values).any():
        raise ValueError("draws must be numbers, got NaN")
    if values.shape[1:] == alone:
        return values.reshape(len(values), len(indices))
    places = np.ravel_multi_index(np.transpose(indices), event)
    return np.asarray(values.reshape(len(values), -1)[:, places])


def cost_name(index: Index) -> str:
    """The name of a cost: c[0], or c[1, 0] with several alternatives."""
    return f"c[{', '.join(map(str, index))}]"


def cost_label(model: GCM | IGCM, index: Index) -> str:
    """A label with the name of a cost, the revenue it is compared with, and its unit."""
    revenue, part = ("r", model.revenue_map) if isinstance(model, GCM) else ("k", model.kernel_map)
    if not isinstance(part, Identity):
        return f"{cost_name(index)} (units of the mapped {revenue})"
    unit = "units of the data" if revenue == "r" else "units of k"
    return f"{cost_name(index)}, cost of {revenue}[{index[-1]}] ({unit})"
