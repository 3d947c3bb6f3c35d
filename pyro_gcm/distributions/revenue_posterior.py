"""The exact posterior of a Gaussian revenue, given the outcome of its order event."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.distributions.families import base_distribution
from pyro_gcm.distributions.infinite_cost import finite_part
from pyro_gcm.distributions.parameter_types import an_event, tensors


class RevenuePosterior(TorchDistribution):
    """p(k | y) for independent Gaussian k and c, where y = 1 if c < k.

    It is sampled exactly: first d = c - k from its posterior, whose coordinates are truncated at
    0, then k given d, a linear Gaussian regression. The density is that of Bayes' rule,

        log p(k | y) = log p(k) + log Pr(y | k) - log Pr(y).

    :param event: `OrderEvent` of a cost (also an `InfiniteCost`) and a revenue that are both
        distributions.
    :param outcome: the observed y in {0, 1}; broadcasts against `event.batch_shape`.
    :raises ValueError: if the cost or the revenue is a tensor, or an outcome is not 0 or 1.
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.real_vector

    def __init__(self, event: Any, outcome: Tensor, *, validate_args: bool | None = None) -> None:
        an_event(event)
        tensors(outcome=outcome)
        if isinstance(event.cost, Tensor) or isinstance(event.revenue, Tensor):
            raise ValueError("event must have distributions as its cost and as its revenue")
        batch_shape = broadcast_shapes(event.batch_shape, outcome.shape)
        self.event, self.outcome = event.expand(batch_shape), outcome.expand(batch_shape)
        super().__init__(batch_shape, event.revenue.event_shape, validate_args=validate_args)
        if self._validate_args and not constraints.boolean.check(outcome).all():
            raise ValueError("outcome must be 0 or 1")

    def expand(self, batch_shape: Any, _instance: Any = None) -> RevenuePosterior:
        """The same posterior with a larger batch shape."""
        outcome = self.outcome.expand(torch.Size(batch_shape))
        return RevenuePosterior(self.event, outcome, validate_args=self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of a revenue `[..., K]`."""
        if self._validate_args:
            self._validate_sample(value)
        given = self.event.given_revenue(value)
        log_ratio = given.log_prob(self.outcome) - self.event.log_prob(self.outcome)
        log_p: Tensor = self.event.revenue.log_prob(value) + log_ratio
        return log_p

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + [K]`."""
        cost = base_distribution(finite_part(self.event.cost))
        revenue = base_distribution(self.event.revenue)
        loc, variance = revenue.loc.double(), revenue.scale.double().square()
        total = variance + cost.scale.double().square()
        d = self.event.difference().cost_posterior(self.outcome).sample(sample_shape)  # of c - k
        share = variance / total
        residual = (variance * (1.0 - share)).sqrt()
        shift = -share * (d - (cost.loc.double() - loc))
        # k does not depend on y given an infinite cost.
        shift, residual = (
            torch.where(d.isinf(), 0.0, shift),
            torch.where(d.isinf(), variance.sqrt(), residual),
        )
        draw = loc + shift + residual * torch.randn(d.shape, dtype=d.dtype, device=d.device)
        return draw.to(self.event.dtype)
