"""A random revenue: its exact posterior given the outcome, and p(k | r) of the linear model."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
from order_event_cases import DIFFERENT, agreement, dtypes, outcomes
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.posteriors import linear_gaussian_posterior

#: What either sampler draws for a comparison.
DRAWS = 6_000

sizes = pytest.mark.parametrize("size", [1, 2, 3], ids=lambda k: f"K={k}")
atoms = pytest.mark.parametrize("p0", [0.0, 0.3], ids=["finite", "infinite"])


def normal(*shape: int) -> Any:
    loc = torch.randn(*shape, dtype=torch.float64)
    return dist.Normal(loc, 0.4 + torch.rand(*shape, dtype=torch.float64)).to_event(1)


def with_atom(cost: Any, p0: float) -> Any:
    return InfiniteCost(cost, torch.tensor(p0, dtype=torch.float64).logit()) if p0 else cost


def event(size: int, p0: float = 0.0, batch: tuple[int, ...] = ()) -> OrderEvent:
    """An event of two Gaussians whose outcomes both have a fair chance."""
    cost, scale = normal(*batch, size), 0.4 + torch.rand(*batch, size, dtype=torch.float64)
    # K gaps of this size are all positive with probability 1/2.
    gap = torch.special.ndtri(torch.tensor(0.5, dtype=torch.float64) ** (1.0 / size))
    loc = cost.mean + gap * torch.hypot(cost.stddev, scale)
    loc = loc + 0.2 * torch.randn(*batch, size, dtype=torch.float64)
    return OrderEvent(with_atom(cost, p0), dist.Normal(loc, scale).to_event(1))


def by_rejection(pair: OrderEvent, outcome: float, count: int) -> tuple[Tensor, Tensor]:
    """Draws of c and k for an event without batch: those of the prior that agree."""
    c, k = pair.cost.sample((12 * count,)), pair.revenue.sample((12 * count,))
    agrees = (c < k).all(-1).double() == outcome
    assert agrees.sum() >= count
    return c[agrees][:count], k[agrees][:count]


def features(c: Tensor, k: Tensor) -> Tensor:
    """c, k, c - k and c k; an infinite cost counts as a large one."""
    c = c.clamp(max=50.0)
    return torch.cat([c, k, c - k, c * k], -1)


@sizes
@atoms
@outcomes
def test_revenue_and_then_cost_agree_jointly_with_rejection_sampling(
    outcome: float, p0: float, size: int
) -> None:
    pair, y = event(size, p0), torch.tensor(outcome)
    k = pair.revenue_posterior(y).sample((DRAWS,))
    c = pair.given_revenue(k).cost_posterior(y).sample()
    assert ((c < k).all(-1).double() == outcome).all()
    wanted = by_rejection(pair, outcome, DRAWS)
    assert agreement(features(c, k), features(*wanted)) > DIFFERENT


@dtypes
@atoms
def test_costs_agree_with_outcomes_however_unlikely(p0: float, dtype: torch.dtype) -> None:
    rows = 2000
    loc = torch.linspace(-12.0, 12.0, rows, dtype=dtype).unsqueeze(-1).expand(rows, 2)
    cost = with_atom(dist.Normal(torch.zeros_like(loc), 1.0).to_event(1), p0)
    pair = OrderEvent(cost, dist.Normal(loc, 0.5).to_event(1))
    for y in (torch.zeros(rows, dtype=dtype), torch.ones(rows, dtype=dtype)):
        posterior = pair.revenue_posterior(y)
        k = posterior.sample((10,))
        c = pair.given_revenue(k).cost_posterior(y).sample()
        assert k.dtype == dtype
        assert k.isfinite().all()
        assert posterior.log_prob(k).isfinite().all()
        assert ((c < k).all(-1).to(dtype) == y).all()


def test_costs_have_a_posterior_only_given_a_revenue() -> None:
    cost, known, one = normal(2), torch.zeros(2), torch.tensor(1.0)
    for pair in ((known, known), (cost, cost)):
        with pytest.raises(ValueError, match="a distribution as its cost and a tensor as its rev"):
            OrderEvent(*pair).cost_posterior(one)


def test_posteriors_of_a_kernel_broadcast() -> None:
    """That it is Bayes' rule is tested of the programs of `IGCM`."""
    for size in (1, 2):
        prior, noise, r = normal(4, 1, size), normal(3, 2), torch.randn(3, 2, dtype=torch.float64)
        loading = 0.1 + torch.rand(2, size, dtype=torch.float64)
        every = linear_gaussian_posterior(prior, loading, noise, r)
        assert (every.batch_shape, every.event_shape) == ((4, 3), (size,))
        own = dist.Normal(prior.mean[2, 0], prior.stddev[2, 0]).to_event(1)
        dr = dist.Normal(noise.mean[1], noise.stddev[1]).to_event(1)
        one = linear_gaussian_posterior(own, loading, dr, r[1])
        torch.testing.assert_close(every.mean[2, 1], one.mean)
        torch.testing.assert_close(every.variance.expand(4, 3, size)[2, 1], one.variance)
