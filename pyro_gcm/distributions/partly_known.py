"""Independent values of which some are known, as a cost family."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.distributions.families import CostFamily, add_cost_family, cost_family
from pyro_gcm.distributions.parameter_types import distributions, tensors


class PartlyKnown(TorchDistribution):
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

    def expand(self, batch_shape: Any, _instance: Any = None) -> PartlyKnown:
        """The same distribution with a larger batch shape."""
        shape = torch.Size(batch_shape)
        base, known = self.base_dist.expand(shape), self.known.expand(shape)
        return PartlyKnown(base, known, validate_args=self._validate_args)

    def where_known(self, known: Tensor, unknown: Tensor) -> Tensor:
        """`known` at the known values, `unknown` elsewhere."""
        return torch.where(self.known.isnan(), unknown, known)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of the unknown values, of shape `sample_shape + batch_shape`."""
        if self._validate_args:
            self._validate_sample(value)
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

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape`."""
        return self.where_known(self.known, self.base_dist.sample(torch.Size(sample_shape)))


def _log_tails(d: PartlyKnown, value: Tensor) -> tuple[Tensor, Tensor]:
    below, above = cost_family(type(d.base_dist)).log_tails(d.base_dist, value)
    zero, never = torch.zeros_like(below), torch.full_like(below, -math.inf)
    is_below = d.known < value
    return (
        d.where_known(torch.where(is_below, zero, never), below),
        d.where_known(torch.where(is_below, never, zero), above),
    )


def _quantile(d: PartlyKnown, log_p: Tensor, log_q: Tensor) -> Tensor:
    free = cost_family(type(d.base_dist)).quantile(d.base_dist, log_p, log_q)
    return d.where_known(d.known.to(free.dtype), free)


add_cost_family(PartlyKnown, CostFamily(_log_tails, _quantile))
