"""Costs of which some coordinates were seen: the density of those, and p(c | c_seen)."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm.distributions.families import base_distribution
from pyro_gcm.distributions.infinite_cost import InfiniteCost, finite_part
from pyro_gcm.distributions.partly_known import PartlyKnown


class ObservedCost(TorchDistribution):
    """The marginal density of the coordinates of a cost that were seen; NaN stands for the others.

    A row with all of its coordinates has the density of `cost`, a row with none has density 1.
    Together with `given_observed` it splits a cost in two: p(c) = p(c_seen) p(c | c_seen).

    :param cost: distribution with independent coordinates, of event shape [K] or [G, K], or an
        `InfiniteCost` of one: whatever has a finite coordinate is finite as a whole.
    :param loc: the values are in the units of loc + scale * c; broadcasts against the event shape.
    :param scale: factor of the units, > 0.

    >>> import pyro.distributions as dist, torch
    >>> cost = dist.Normal(torch.zeros(2), 1.0).to_event(1)
    >>> seen = torch.tensor([0.0, torch.nan])
    >>> ObservedCost(cost).log_prob(seen)  # log of 1 / sqrt(2 pi)
    tensor(-0.9189)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, cost: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        self.cost = cost
        like = base_distribution(finite_part(cost)).mean
        self.loc, self.scale = torch.as_tensor(loc).to(like), torch.as_tensor(scale).to(like)
        super().__init__(cost.batch_shape, cost.event_shape, validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """All of R^K, and NaN."""
        return constraints.independent(constraints.real, len(self.event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> ObservedCost:
        """The same distribution with a larger batch shape."""
        return ObservedCost(self.cost.expand(torch.Size(batch_shape)), self.loc, self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of what is not NaN in `[..., K]` or `[..., G, K]`."""
        seen = ~value.isnan()
        standard = (torch.where(seen, value, self.loc) - self.loc) / self.scale
        density = base_distribution(finite_part(self.cost)).log_prob(standard) - self.scale.log()
        log_p: Tensor = torch.where(seen, density, 0.0).sum(-1)
        if isinstance(self.cost, InfiniteCost):
            log_p = log_p + torch.where(seen.any(-1), self.cost.log_finite, 0.0)
        log_p = log_p.sum(-1) if len(self.event_shape) == 2 else log_p
        return log_p.to(self.loc.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of the whole cost, of shape `sample_shape + batch_shape + event_shape`."""
        draw: Tensor = self.cost.sample(torch.Size(sample_shape))
        return self.loc + self.scale * draw


def given_observed(cost: Any, value: Tensor) -> Any:
    """p(c | c_seen): the coordinates of `value` that are not NaN are known, the others as before.

    :param cost: as for `ObservedCost`.
    :param value: `[..., K]` or `[..., G, K]` in the units of the cost.
    """
    rank = len(cost.event_shape)
    finite: Any = PartlyKnown(base_distribution(finite_part(cost)), value)
    finite = finite.to_event(rank)
    if not isinstance(cost, InfiniteCost):
        return finite
    # One coordinate that was seen says that the alternative is finite.
    seen = (~value.isnan()).any(-1)
    rows = torch.broadcast_shapes(cost.logits.shape, seen.shape)
    return InfiniteCost(finite, cost.logits.expand(rows).masked_fill(seen, -math.inf))
