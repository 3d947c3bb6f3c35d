"""The factors of a story that the models share."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.costs import sides
from pyro_gcm.inference.reading import READER


def z_dist(self: Any, x: Tensor | None) -> Any:
    """p(z|x) for x [B, x_dim] in data units, or p(z)."""
    if not self.reads_x:
        return self.z_prior()
    if x is None:
        raise ValueError("x must be given: the prior p(z|x) reads it")
    return self.z_prior(self.x_standardizer(x))


def z_guide_dist(self: Any, x: Tensor | None, r: Tensor | None, y: Tensor | None) -> Any:
    """q(z|x, r, y), or p(z|x) where the guide is the prior; arguments in data units."""
    if x is None:
        raise ValueError("x must be given: the guide reads it")
    if self.z_guide is None:
        return self.z_dist(x)
    x = self.x_standardizer(x)
    r = None if r is None else self.r_standardizer(r)
    return self.z_guide(x, r, None if y is None else self.response.standardized(y).to(x.dtype))


def covariates(self: Any, z: Tensor, x: Tensor) -> Tensor:
    """Return x [B, x_dim] as the factors of the model read it after z: standardised."""
    standard: Tensor = self.x_standardizer(x)
    return standard


def read_covariates(self: Any, x: Tensor, z: Tensor | None = None) -> Tensor:
    """`covariates` of x in data units, computed once for all lines of a story."""
    story = READER.get()
    found: Tensor = self.covariates(z, x) if story is None else story.covariates(z, x)
    return found


def c_dist(self: Any, z: Tensor, x: Tensor) -> Any:
    """p(c|z), or p(c|z, x) where a cost may be infinite or z is a member; x in data units."""
    cost = self.cost_net(z)
    if self.infinite_net is None:
        return cost
    return InfiniteCost(cost, self.infinite_net(self.read_covariates(x, z)))


def outcome_dist(self: Any, cost: Any, revenue: Any, covariates: Tensor, r: Tensor) -> Any:
    """p(y | z, x, r): what the response makes of the order event between cost and revenue.

    :param cost: the costs as the story's site gave them, or their distribution.
    :param revenue: what they are compared with; `r`: the revenues in data units.
    """
    p_c, c = sides(cost)
    event = OrderEvent(p_c, revenue, validate_args=False)
    p_y = self.response.distribution(event, covariates, r)
    return p_y if c is None else p_y.given_cost(c)
