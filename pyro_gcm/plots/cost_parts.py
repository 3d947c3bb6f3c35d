"""What the figures of costs share: a row, indices of costs, revenues, draws, and one cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import ArrayLike, as_tensor, matrix
from pyro_gcm.distributions import InfiniteCost
from pyro_gcm.distributions.costs import finite_part
from pyro_gcm.distributions.families import tail_log_probs
from pyro_gcm.distributions.joint import LatentMixture
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.plots.axes import Array, index_of, numbers
from pyro_gcm.responses import AxisResponse

Index = tuple[int, ...]


class Cost:
    """The distribution of one cost of one row, a mixture over N draws of z.

    :param mixture: p(c | x) with batch shape [1].
    :param index: index of the cost in the event shape, (k,) or (g, k).

    Attributes: `name`; `weights`, of the draws, [N]; `finite`, Pr(c < inf | z), [N].
    """

    def __init__(self, mixture: LatentMixture, index: Index) -> None:
        self.name = f"c[{', '.join(map(str, index))}]"
        self._costs, event = finite_part(mixture.component), mixture.event_shape
        self._place = int(np.ravel_multi_index(index, event))
        self.weights = mixture.log_weights[:, 0].double().exp()
        units = (part.double().expand(event).flatten() for part in (mixture.loc, mixture.scale))
        self._loc, self._scale = (unit[self._place] for unit in units)
        self.finite = torch.ones_like(self.weights)
        if isinstance(mixture.component, InfiniteCost):
            p0 = mixture.component.p0[:, 0].double()  # [N] or [N, G]
            self.finite = 1.0 - (p0 if p0.dim() == 1 else p0[:, index[0]])

    def below(self, points: Tensor) -> Tensor:
        """Pr(c < point | z, c < inf) at points [P], [P, N]."""
        shape = self._costs.batch_shape + self._costs.event_shape  # [N, 1, (G,) K]
        standard = ((points.double() - self._loc) / self._scale).reshape(-1, *[1] * len(shape))
        log_below, _ = tail_log_probs(self._costs, standard)
        return log_below.exp().flatten(2)[..., self._place]

    def density(self, points: Tensor) -> Tensor:
        """p(c | z, c < inf) at many rising points [P], from differences of `below`, [P, N]."""
        return torch.gradient(self.below(points), spacing=(points,), dim=0)[0]

    def points(self, limit: float | None, count: int) -> Tensor:
        """Points that cover almost all of the mass, and a limit that is not far from it, [P]."""
        weights = self.weights * self.finite
        weights = weights / weights.sum()
        low, high = (
            float(smallest_reaching(lambda p: self.below(p) @ weights, tail, loc, scale))
            for loc, scale in [(self._loc[None], self._scale[None])]
            for tail in (5e-4, 1.0 - 5e-4)
        )
        width = high - low
        if limit is not None and low - width <= limit <= high + width:
            low, high = min(low, limit - 0.1 * width), max(high, limit + 0.1 * width)
        return torch.linspace(low, high, count, dtype=torch.float64, device=self.weights.device)


def costs_of_row(model: GCM | IGCM, x: ArrayLike, num_samples: int | None) -> LatentMixture:
    """p(c | x) of one row, [x_dim] or [1, x_dim]."""
    row = as_tensor("x", x, model.device)
    row = row[None] if row.dim() == 1 else row
    if row.dim() != 2 or len(row) != 1:
        shape = tuple(row.shape)
        raise ValueError(f"x must be one row, [{model.x_dim}] or [1, {model.x_dim}], got {shape}")
    return model.cost(row, num_samples=num_samples)


def cost_index(name: str, value: Any, shape: tuple[int, ...]) -> Index:
    """The index (k,) or (g, k) of a cost, from a number k (of alternative 0) or a pair (g, k)."""
    index = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(index) == 1 and len(shape) == 2:
        index = (0, *index)
    if len(index) != len(shape):
        raise ValueError(f"{name} must be an index for each of {shape}, got {value!r}")
    return tuple(index_of(name, i, size) for i, size in zip(index, shape, strict=True))


def thresholds(model: GCM | IGCM, r: ArrayLike, indices: Sequence[Index]) -> list[float]:
    """The values with which the costs are compared at revenues r, in the units of `model.cost`."""
    if not isinstance(model, GCM) or isinstance(model.response, AxisResponse) or model.members:
        raise ValueError(
            "r must be omitted for this model: an IGCM compares costs with the kernel k, members "
            "have maps of their own, and on an axis y moves the revenues"
        )
    r = as_tensor("r", r, model.device)
    r = matrix("r", r.reshape(1, -1) if r.dim() < 2 else r, model.r_dim, "r_dim")
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
    if values.shape[1:] not in (alone, (1, *event)) or np.isnan(values).any():
        raise ValueError(
            f"draws must be numbers of shape {['S', *alone]}, or {['S', 1, *event]} for all costs "
            f"of the row, got {values.shape}"
        )
    if values.shape[1:] == alone:
        return values.reshape(len(values), len(indices))
    places = np.ravel_multi_index(np.transpose(indices), event)
    return np.asarray(values.reshape(len(values), -1)[:, places])


def cost_label(model: GCM | IGCM, index: Index) -> str:
    """A label with the name of a cost, the revenue it is compared with, and its unit."""
    name = f"c[{', '.join(map(str, index))}]"
    if (unit := model.units_of_costs).startswith("mapped"):
        return f"{name} (units of the {unit})"
    revenue, of_unit = ("r", "the data") if unit == "data" else (unit, unit)
    return f"{name}, cost of {revenue}[{index[-1]}] (units of {of_unit})"
