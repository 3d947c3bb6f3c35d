"""Exact posteriors of a Gaussian revenue k: given the outcome, or a linear map of k with noise."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.costs import finite_part
from pyro_gcm.distributions.families import base_distribution


class RevenuePosterior(Expandable):
    """p(k | y) for independent Gaussian k and c, where y = 1 if c < k.

    It is sampled exactly: first d = c - k from its posterior, whose coordinates are truncated at
    0, then k given d, a linear Gaussian regression. The density is that of Bayes' rule,

        log p(k | y) = log p(k) + log Pr(y | k) - log Pr(y).

    :param event: `OrderEvent` of a cost (also an `InfiniteCost`) and a revenue that are both
        distributions.
    :param outcome: the observed y in {0, 1}; broadcasts against `event.batch_shape`.
    :raises ValueError: if the cost or the revenue is a tensor, or an outcome is not 0 or 1.
    """

    support = constraints.real_vector

    def __init__(self, event: Any, outcome: Tensor, *, validate_args: bool | None = None) -> None:
        if isinstance(event.cost, Tensor) or isinstance(event.revenue, Tensor):
            raise ValueError("event must have distributions as its cost and as its revenue")
        batch_shape = broadcast_shapes(event.batch_shape, outcome.shape)
        self.event, self.outcome = event.expand(batch_shape), outcome.expand(batch_shape)
        super().__init__(batch_shape, event.revenue.event_shape, validate_args=validate_args)
        if self._validate_args and not constraints.boolean.check(outcome).all():
            raise ValueError("outcome must be 0 or 1")

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of a revenue `[..., K]`."""
        self._check(value)
        given = self.event.given_revenue(value)
        log_ratio = given.log_prob(self.outcome) - self.event.log_prob(self.outcome)
        return self._wide(self.event.revenue.log_prob(value) + log_ratio)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + [K]`."""
        cost = base_distribution(finite_part(self.event.cost))
        revenue = base_distribution(self.event.revenue)
        loc, variance = revenue.loc.double(), revenue.scale.double().square()
        total = variance + cost.scale.double().square()
        d = self.event.difference().cost_posterior(self.outcome).expand(self.batch_shape)
        d = d.sample(sample_shape)  # of c - k
        share = variance / total
        residual = (variance * (1.0 - share)).sqrt()
        shift = -share * (d - (cost.loc.double() - loc))
        # k does not depend on y given an infinite cost.
        shift = torch.where(d.isinf(), 0.0, shift)
        residual = torch.where(d.isinf(), variance.sqrt(), residual)
        draw = loc + shift + residual * torch.randn(d.shape, dtype=d.dtype, device=d.device)
        return draw.to(self.event.dtype)


def linear_gaussian_posterior(prior: Any, loading: Tensor, noise: Any, value: Tensor) -> Any:
    """p(k | r) for r = W k + dr, k ~ prior and dr ~ noise, normal with independent coordinates.

    With W of shape [m, K] the posterior precision is S_k^-1 + W' S_r^-1 W. It is correlated even
    if prior and noise are not, so the result is a `MultivariateNormal`, except for K = 1.

    :param prior: normal of batch shape [...] and event shape [K].
    :param loading: W, [m, K].
    :param noise: normal of batch shape [...] and event shape [m].
    :param value: r, [..., m].
    :raises ValueError: if prior or noise is not normal with independent coordinates.
    """
    for name, part in (("prior", prior), ("noise", noise)):
        if not is_independent_normal(part):
            got = type(coordinates(part)).__name__
            raise ValueError(f"{name} must be normal with independent coordinates, got {got}")
    k, dr = coordinates(prior), coordinates(noise)
    precision_k, precision_r = k.scale**-2, dr.scale**-2
    weighted = loading.mT * precision_r.unsqueeze(-2)  # W' S_r^-1, [..., K, m]
    shift = (weighted @ (value - dr.loc).unsqueeze(-1)).squeeze(-1) + precision_k * k.loc
    precision = weighted @ loading + torch.diag_embed(precision_k)
    if loading.shape[-1] == 1:
        variance = 1.0 / precision.squeeze(-1)
        return dist.Normal(variance * shift, variance.sqrt()).to_event(1)
    factor = torch.linalg.cholesky(precision)
    loc = torch.cholesky_solve(shift.unsqueeze(-1), factor).squeeze(-1)
    covariance = torch.cholesky_inverse(factor)
    return dist.MultivariateNormal(loc, scale_tril=torch.linalg.cholesky(covariance))


def is_independent_normal(distribution: Any) -> bool:
    """Whether a distribution is normal with independent coordinates."""
    return isinstance(coordinates(distribution), torch.distributions.Normal)


def coordinates(distribution: Any) -> Any:
    """The distribution under `.to_event`."""
    while isinstance(distribution, torch.distributions.Independent):
        distribution = distribution.base_dist
    return distribution
