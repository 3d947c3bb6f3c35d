"""Costs of which some are observed: their density, and p(c | c_observed)."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.tensors import as_tensor, broadcast_shapes
from pyro_gcm.distributions.base import Expandable, distributions, real_costs, tensors
from pyro_gcm.distributions.event_sides import InfiniteCost, finite_part, univariate
from pyro_gcm.distributions.families import (
    CostFamily,
    add_cost_family,
    base_distribution,
    cost_family,
)


class PartlyKnown(Expandable):
    """A univariate distribution, conditioned on its value where that is known.

    The density is 1 at a known value and 0 elsewhere, so that `log_prob` counts unknown values
    only.

    :param base_dist: univariate distribution of a registered cost family.
    :param known: values that broadcast against its batch shape, NaN where they are unknown.
    :raises ValueError: for a multivariate `base_dist`.

    >>> import pyro.distributions as dist, torch
    >>> PartlyKnown(dist.Normal(0.0, 1.0), torch.tensor([2.0, 3.0])).sample()
    tensor([2., 3.])
    """

    # NaN is allowed, so that the values are not checked.
    arg_constraints = {"known": constraints.dependent(is_discrete=False, event_dim=0)}

    def __init__(self, base_dist: Any, known: Tensor, *, validate_args: bool | None = None) -> None:
        distributions(base_dist=base_dist)
        tensors(known=known)
        if base_dist.event_shape:
            raise ValueError(f"base_dist has event_dim {len(base_dist.event_shape)}, expected 0")
        batch_shape = broadcast_shapes(base_dist.batch_shape, known.shape)
        self.base_dist = base_dist.expand(batch_shape)
        self.known = known.to(base_dist.mean.dtype).expand(batch_shape)
        super().__init__(batch_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The support of the unknown values."""
        return self.base_dist.support

    def where_known(self, known: Tensor, unknown: Tensor) -> Tensor:
        """`known` at the known values, `unknown` elsewhere; at least of the batch shape."""
        return self._wide(torch.where(self.known.isnan(), unknown, known))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of the unknown values, of shape `sample_shape + batch_shape`."""
        self._check(value)
        agrees = torch.where(value == self.known, 0.0, -math.inf)
        return self.where_known(agrees, self.base_dist.log_prob(value))

    @property
    def mean(self) -> Tensor:
        """A known value is its own mean."""
        return self.where_known(self.known, self.base_dist.mean)

    @property
    def variance(self) -> Tensor:
        """0 for a known value."""
        return self.where_known(torch.zeros_like(self.known), self.base_dist.variance)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape`."""
        draw = self.base_dist.expand(self.batch_shape).sample(sample_shape)
        return self.where_known(self.known, draw)


def _log_tails(d: PartlyKnown, value: Tensor) -> tuple[Tensor, Tensor]:
    below, above = cost_family(type(d.base_dist)).log_tails(d.base_dist, value)
    is_below = (d.known < value).double()
    return d.where_known(is_below.log(), below), d.where_known((1.0 - is_below).log(), above)


def _quantile(d: PartlyKnown, log_p: Tensor, log_q: Tensor) -> Tensor:
    free = cost_family(type(d.base_dist)).quantile(d.base_dist, log_p, log_q)
    return d.where_known(d.known.to(free.dtype), free)


add_cost_family(PartlyKnown, CostFamily(_log_tails, _quantile))


class ObservedCost(Expandable):
    """The marginal density of the observed coordinates of a cost; NaN stands for the others.

    A row with all of its coordinates has the density of `cost`, a row with none has density 1.
    Together with `given_observed` it factorises a cost: p(c) = p(c_observed) p(c | c_observed).

    :param cost: distribution with independent coordinates, of event shape [K] or [G, K], or an
        `InfiniteCost` of one: an alternative is finite if an observed coordinate of it is.
    :param loc: the values are in the units of loc + scale * c; broadcasts against the event shape.
    :param scale: factor of the units, > 0.
    :raises ValueError: for a cost without an event dimension.

    >>> import pyro.distributions as dist, torch
    >>> cost = dist.Normal(torch.zeros(2), 1.0).to_event(1)
    >>> observed = torch.tensor([0.0, torch.nan])
    >>> ObservedCost(cost).log_prob(observed)  # log of 1 / sqrt(2 pi)
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    #: NaN is allowed as well.
    support = real_costs

    def __init__(
        self, cost: Any, loc: Any = 0.0, scale: Any = 1.0, *, validate_args: bool | None = None
    ) -> None:
        self.cost, like = cost, univariate("cost", finite_part(cost)).mean

        def unit(name: str, value: Any) -> Tensor:
            if isinstance(value, Tensor):
                return value.to(torch.promote_types(value.dtype, like.dtype))
            return as_tensor(name, value).to(like)

        self.loc, self.scale = unit("loc", loc), unit("scale", scale)
        super().__init__(cost.batch_shape, cost.event_shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of the entries of `[..., K]` or `[..., G, K]` that are not NaN."""
        value = value.double()  # the same for costs of every type
        observed = ~value.isnan()
        self._check(torch.where(observed, value, 0.0))
        infinite = torch.zeros_like(observed)
        if isinstance(self.cost, InfiniteCost):  # rows of infinite costs are an atom
            infinite = ((value == math.inf) | ~observed).all(-1, keepdim=True) & observed
        standard = (torch.where(observed & ~infinite, value, self.loc) - self.loc) / self.scale
        density = base_distribution(finite_part(self.cost)).log_prob(standard) - self.scale.log()
        log_p: Tensor = torch.where(observed & ~infinite, density, 0.0).sum(-1)
        if isinstance(self.cost, InfiniteCost):
            atom = torch.where(infinite.any(-1), self.cost.log_infinite, self.cost.log_finite)
            log_p = log_p + torch.where(observed.any(-1), atom, 0.0)
        log_p = log_p.sum(-1) if len(self.event_shape) == 2 else log_p
        return self._wide(log_p.to(self.loc.dtype))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of the whole cost, of shape `sample_shape + batch_shape + event_shape`."""
        draw: Tensor = self.cost.expand(self.batch_shape).sample(sample_shape)
        return self.loc + self.scale * draw


def given_observed(cost: Any, value: Tensor) -> Any:
    """p(c | c_observed): entries of `value` that are not NaN are known, the others unchanged.

    :param cost: as for `ObservedCost`.
    :param value: `[..., K]` or `[..., G, K]` in the units of the cost.
    """
    rank = len(cost.event_shape)
    finite: Any = PartlyKnown(base_distribution(finite_part(cost)), value)
    finite = finite.to_event(rank)
    if not isinstance(cost, InfiniteCost):
        return finite
    # An alternative with an observed coordinate is finite.
    observed = (~value.isnan()).any(-1)
    rows = broadcast_shapes(cost.logits.shape, observed.shape)
    return InfiniteCost(finite, cost.logits.expand(rows).masked_fill(observed, -math.inf))
