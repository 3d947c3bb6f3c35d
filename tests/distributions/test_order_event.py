"""`OrderEvent` is a distribution as Pyro wants it."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from order_event_cases import (
    LOGITS,
    TOLERANCE,
    atoms,
    dtypes,
    event_shapes,
    exact_inputs,
    fair_event,
    families,
    hard_revenues,
    independent,
    largest_error,
    random_parameters,
)

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.order_event import integrates_over


def test_certain_events_have_no_variance() -> None:
    revenue = torch.tensor([[-math.inf, 0.0], [math.inf, math.inf]])
    event = OrderEvent(independent("Normal", torch.zeros(2), torch.ones(2)), revenue)
    assert event.mean.tolist() == [0.0, 1.0]
    assert event.variance.tolist() == [0.0, 0.0]
    assert event.sample((50,)).unique(dim=0).tolist() == [[0.0, 1.0]]


def test_event_between_tensors_is_the_strict_product_order() -> None:
    cost = torch.tensor([[0.0, 1.0], [0.0, 2.0], [-1.0, 1.0], [math.inf, -math.inf]])
    revenue = torch.tensor([1.0, 2.0])
    event = OrderEvent(cost, revenue)
    assert event.batch_shape == (4,)
    assert event.mean.tolist() == [1.0, 0.0, 1.0, 0.0]  # equal is not below
    assert event.log_prob(torch.ones(4)).tolist() == [0.0, -math.inf, 0.0, -math.inf]
    assert event.log_prob(torch.zeros(4)).tolist() == [-math.inf, 0.0, -math.inf, 0.0]
    assert torch.equal(event.sample((3,)), event.mean.expand(3, 4))
    # Of alternatives one must be below, not a coordinate of each.
    cost = torch.tensor([[0.0, 0.0], [5.0, 5.0]])  # [G, K]
    revenue = torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]], [[6.0, 6.0]], [[6.0, -1.0]]])
    assert OrderEvent(cost, revenue, cost_event_dim=2).mean.tolist() == [1.0, 0.0, 1.0, 0.0]
    crossed = torch.tensor([[1.0, -1.0], [6.0, 4.0]])
    assert OrderEvent(cost, crossed, cost_event_dim=2).mean.item() == 0.0


@event_shapes
@atoms
def test_given_cost_is_the_event_and_marginalize_its_probability(
    infinite: bool, shape: tuple[int, ...]
) -> None:
    count, event = 20_000, fair_event(shape, batch_shape=(4,), infinite=infinite)
    draw = event.cost.sample((count,))
    given = event.given_cost(draw)
    assert given.batch_shape == (count, 4)
    below = (draw < event.revenue).all(-1)
    assert torch.equal(given.mean, (below.any(-1) if len(shape) == 2 else below).double())
    again, p = given.marginalize(event.cost), event.mean
    assert all(map(torch.equal, again.log_probs(), event.log_probs()))
    assert ((given.mean.mean(0) - p).abs() < 5.0 * (p * (1.0 - p) / count).sqrt()).all()


@families
@dtypes
def test_random_revenue_of_any_family_against_a_known_cost(family: str, dtype: torch.dtype) -> None:
    u = hard_revenues(10, 1, 3)[:, 0].to(dtype)
    loc, scale = random_parameters(u.shape, dtype)
    cost = loc + scale * u
    event = OrderEvent(cost, independent(family, loc, scale))
    # c < r is -r < -c: an event of the mirrored revenue below the mirrored cost.
    exact = exact_inputs(-loc, scale, -cost)
    assert largest_error(event, family, exact) <= TOLERANCE[dtype]


@dtypes
@atoms
def test_gaussian_revenue_and_gaussian_cost_have_the_probability_of_their_difference(
    dtype: torch.dtype, infinite: bool
) -> None:
    u = hard_revenues(20, 1, 3)[:, 0].to(dtype)
    loc, scale = random_parameters(u.shape, dtype)
    _, spread = random_parameters(u.shape, dtype)
    revenue = loc + torch.hypot(scale, spread) * u
    cost, logits = independent("Normal", loc, scale), None
    if infinite:
        logits = torch.tensor(LOGITS, dtype=dtype)[torch.randint(len(LOGITS), (20,))]
        cost = InfiniteCost(cost, logits)
    event = OrderEvent(cost, independent("Normal", revenue, spread))
    rows = zip(*(t.tolist() for t in (revenue, loc, scale, spread)), strict=True)
    with mp.workdps(60):
        exact = [
            [[(mpf(a) - mpf(b)) / mp.hypot(mpf(d), mpf(e)) for a, b, d, e in zip(*x, strict=True)]]
            for x in rows
        ]
    of_atom = None if logits is None else logits[:, None].tolist()
    assert largest_error(event, "Normal", exact, of_atom) <= TOLERANCE[dtype]


def normal(*shape: int) -> Any:
    return dist.Normal(torch.zeros(shape), torch.ones(shape)).to_event(len(shape))


INFINITE = InfiniteCost(normal(2), torch.zeros(()))
LAPLACE = dist.Laplace(torch.zeros(2), 1.0).to_event(1)
CORRELATED = dist.MultivariateNormal(torch.zeros(2), torch.eye(2))
MAPPED = dist.TransformedDistribution(
    normal(2), [dist.transforms.AffineTransform(0.0, 2.0, event_dim=1)]
)
CLOSED: list[tuple[Any, Any]] = [
    (normal(1), normal(1)),
    (normal(2).expand([5, 1]), normal(2).expand([4])),
    (dist.Normal(torch.zeros(1), 1.0).expand([2]).to_event(1), normal(2).expand([5])),
    (INFINITE, normal(2)),
]
ZERO = torch.zeros(3)
#: Cost, revenue, and what is said of them.
REFUSED: list[tuple[Any, Any, str]] = [
    (normal(2, 3), normal(3), "revenue has event_dim 1, expected 2"),
    (normal(2, 3), normal(2, 3), "alternatives share their revenue"),
    (normal(3), normal(2, 3), "cost has event_dim 1, expected 2"),
    (CORRELATED, torch.zeros(2), "MultivariateNormal is not a registered"),
    (normal(2), CORRELATED, "MultivariateNormal is not a registered"),
    (normal(2), MAPPED, "TransformedDistribution is not a"),
    (LAPLACE, normal(2), "Gaussian revenue only, got Laplace and Normal"),
    (normal(2), LAPLACE, "Gaussian revenue only, got Normal and Laplace"),
    (InfiniteCost(LAPLACE, torch.zeros(())), normal(2), "only, got Laplace and Normal"),
    (normal(2), INFINITE, "InfiniteCost is not a registered"),
    (INFINITE.expand((3,)).to_event(1), torch.zeros(3, 2), "InfiniteCost is not a registered"),
    (dist.Normal(ZERO, 1.0), ZERO, r"expected 1 for \[K\] or 2 for \[G, K\]; use .to_event"),
    (normal(3), dist.Normal(ZERO, 1.0), "revenue has event_dim 0, expected 1"),
    (dist.StudentT(5.0, ZERO, 1.0).to_event(1), ZERO, "StudentT is not .*register_cost_family"),
    (normal(3), dist.LogNormal(ZERO, 1.0).to_event(1), "LogNormal is not a registered"),
    (normal(3), [0.0] * 3, "revenue must be a tensor or"),
    (torch.zeros(()), torch.zeros(()), "at least 1 dimensions"),
]


def test_closed_forms_are_seen_and_all_else_is_refused_at_once() -> None:
    for cost, revenue in CLOSED:
        assert integrates_over(cost, revenue)
        assert OrderEvent(cost, revenue).log_probs()[0].isfinite().all()
    for cost, revenue, message in REFUSED:
        assert not integrates_over(cost, revenue)
        with pytest.raises((TypeError, ValueError), match=message):
            pytest.fail(f"{OrderEvent(cost, revenue)}: {message}")
