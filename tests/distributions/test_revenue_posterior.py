"""A random revenue: where its order event has a closed form, and its exact posterior."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
from samplers import DIFFERENT, agreement
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.order_event import integrates_over

#: What either sampler draws for a comparison, and what a frequency is measured with.
DRAWS, MANY = 6_000, 10**6

outcomes = pytest.mark.parametrize("outcome", [0.0, 1.0], ids=["y=0", "y=1"])
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


# Where there is a closed form


def zeros(*shape: int) -> Any:
    return dist.Normal(torch.zeros(shape), 1.0)


CLOSED: dict[str, tuple[Any, Any]] = {
    "one cost": (zeros(1).to_event(1), zeros(1).to_event(1)),
    "three costs": (zeros(3).to_event(1), zeros(3).to_event(1)),
    "batches": (zeros(5, 1, 2).to_event(1), zeros(4, 2).to_event(1)),
    "expanded": (zeros(1).expand([2]).to_event(1), zeros(2).to_event(1).expand([5])),
    "infinite cost": (InfiniteCost(zeros(2).to_event(1), torch.zeros(())), zeros(2).to_event(1)),
}
MAPPED = dist.TransformedDistribution(
    zeros(2).to_event(1), [dist.transforms.AffineTransform(0.0, 2.0, event_dim=1)]
)
OPEN: dict[str, tuple[Any, Any]] = {
    "alternatives": (zeros(2, 3).to_event(2), zeros(3).to_event(1)),
    "alternatives, revenues of both": (zeros(2, 3).to_event(2), zeros(2, 3).to_event(2)),
    "one alternative of two dimensions": (zeros(1, 3).to_event(2), zeros(3).to_event(1)),
    "correlated revenue": (
        zeros(2).to_event(1),
        dist.MultivariateNormal(torch.zeros(2), scale_tril=torch.eye(2)),
    ),
    "correlated cost": (
        dist.MultivariateNormal(torch.zeros(2), scale_tril=torch.eye(2)),
        zeros(2).to_event(1),
    ),
    "mapped revenue": (zeros(2).to_event(1), MAPPED),
    "laplace cost": (dist.Laplace(torch.zeros(2), 1.0).to_event(1), zeros(2).to_event(1)),
    "laplace revenue": (zeros(2).to_event(1), dist.Laplace(torch.zeros(2), 1.0).to_event(1)),
    "laplace twice": (dist.Laplace(torch.zeros(2), 1.0).to_event(1),) * 2,
    "logistic cost": (dist.Logistic(torch.zeros(2), 1.0).to_event(1), zeros(2).to_event(1)),
    "no event dimension": (zeros(2).to_event(1), zeros(2)),
}
UNREGISTERED: dict[str, Any] = {
    "mapped coordinates": dist.LogNormal(torch.zeros(2), 1.0).to_event(1),
    "student revenue": dist.StudentT(5.0, torch.zeros(2), 1.0).to_event(1),
}


@pytest.mark.parametrize("case", CLOSED)
def test_closed_form_is_seen_for_independent_gaussians_of_one_alternative(case: str) -> None:
    assert integrates_over(*CLOSED[case])
    assert OrderEvent(*CLOSED[case]).log_probs()[0].isfinite().all()


@pytest.mark.parametrize("case", OPEN)
def test_no_closed_form_is_seen_where_there_is_none(case: str) -> None:
    assert not integrates_over(*OPEN[case])
    with pytest.raises(ValueError, match=r"revenue|cost"):
        OrderEvent(*OPEN[case])


@pytest.mark.parametrize("case", UNREGISTERED)
def test_no_closed_form_is_seen_for_a_revenue_of_no_cost_family(case: str) -> None:
    assert not integrates_over(zeros(2).to_event(1), UNREGISTERED[case])


# The posterior


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
def test_draws_of_the_revenue_agree_with_rejection_sampling(
    outcome: float, p0: float, size: int
) -> None:
    pair = event(size, p0)
    k = pair.revenue_posterior(torch.tensor(outcome)).sample((DRAWS,))
    assert k.shape == (DRAWS, size)
    wanted = by_rejection(pair, outcome, DRAWS)[1]
    assert agreement(k, wanted) > DIFFERENT


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
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


@sizes
@atoms
@outcomes
def test_density_is_that_of_bayes_rule(outcome: float, p0: float, size: int) -> None:
    pair = event(size, p0, (5,))
    k = pair.revenue.sample((20,))
    finite = getattr(pair.cost, "cost", pair.cost).base_dist
    given = (1.0 - p0) * torch.special.ndtr((k - finite.loc) / finite.scale).prod(-1)
    gap = torch.hypot(finite.scale, pair.revenue.base_dist.scale)
    evidence = (1.0 - p0) * torch.special.ndtr(
        (pair.revenue.base_dist.loc - finite.loc) / gap
    ).prod(-1)
    if not outcome:
        given, evidence = 1.0 - given, 1.0 - evidence
    wanted = pair.revenue.log_prob(k).exp() * given / evidence
    posterior = pair.revenue_posterior(torch.tensor(outcome).double())
    torch.testing.assert_close(posterior.log_prob(k).exp(), wanted, rtol=1e-9, atol=1e-12)


def test_cost_or_revenue_that_is_known_has_no_posterior_of_the_revenue() -> None:
    one = torch.tensor(1.0)
    for known in ((torch.zeros(2), zeros(2).to_event(1)), (zeros(2).to_event(1), torch.zeros(2))):
        with pytest.raises(ValueError, match="event must have distributions as its cost and as"):
            OrderEvent(*known).revenue_posterior(one)


def test_density_of_what_is_no_outcome_or_no_revenue_is_refused() -> None:
    pair = OrderEvent(zeros(2).to_event(1), zeros(2).to_event(1), validate_args=True)
    k = torch.zeros(2)
    with pytest.raises(ValueError, match="outcome must be 0 or 1"):
        pair.revenue_posterior(torch.tensor(0.5))
    with pytest.raises(ValueError, match="value argument"):
        pair.revenue_posterior(torch.tensor(1.0)).log_prob(k / 0.0)
