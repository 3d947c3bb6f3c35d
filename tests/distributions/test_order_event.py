"""`OrderEvent` is a distribution as Pyro wants it."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from order_event_cases import (
    LOGITS,
    TOLERANCE,
    atoms,
    dtypes,
    exact_inputs,
    fair_event,
    families,
    hard_revenues,
    independent,
    largest_errors,
    order_event,
    outcomes,
    random_parameters,
    shapes,
)
from pyro.infer import TraceEnum_ELBO, config_enumerate

from pyro_gcm.distributions import InfiniteCost, OrderEvent


@families
def test_probabilities_over_the_support_sum_to_one(family: str) -> None:
    revenue = torch.randn(7, 2, 3, dtype=torch.float64)
    event = order_event(family, *random_parameters(revenue.shape, torch.float64), revenue)
    support = event.enumerate_support()
    assert support.tolist() == [[0.0] * 7, [1.0] * 7]
    assert event.enumerate_support(expand=False).tolist() == [[0.0], [1.0]]
    total = event.log_prob(support).exp().sum(0)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-15)
    for log_prob, outcome in zip(event.log_probs(), (0.0, 1.0), strict=True):
        assert torch.equal(log_prob, event.log_prob(torch.tensor(outcome)))


@families
@shapes
def test_moments_equal_brute_force_on_the_product_of_cdfs(
    family: str, shape: tuple[int, ...]
) -> None:
    event = fair_event(shape, family, (20,))
    hit = event.base_dist.cdf(event.revenue).prod(-1)
    p = 1.0 - (1.0 - hit).prod(-1) if len(shape) == 2 else hit
    bernoulli = torch.distributions.Bernoulli(p)
    torch.testing.assert_close(event.mean, p, rtol=1e-10, atol=1e-15)
    torch.testing.assert_close(event.variance, bernoulli.variance, rtol=1e-10, atol=1e-15)
    torch.testing.assert_close(event.entropy(), bernoulli.entropy(), rtol=1e-7, atol=1e-12)
    share = event.sample((4000,)).mean(0)
    assert ((share - p).abs() <= 5.0 * (p * (1.0 - p) / 4000).sqrt() + 1e-12).all()


def test_certain_events_have_no_entropy_and_no_variance() -> None:
    revenue = torch.tensor([[-math.inf, 0.0], [math.inf, math.inf]], requires_grad=True)
    event = OrderEvent(independent("Normal", torch.zeros(2), torch.ones(2)), revenue)
    assert torch.autograd.grad(event.entropy().sum(), revenue)[0].isfinite().all()
    assert event.mean.tolist() == [0.0, 1.0]
    assert event.variance.tolist() == [0.0, 0.0]
    assert event.entropy().tolist() == [0.0, 0.0]
    assert event.sample((50,)).unique(dim=0).tolist() == [[0.0, 1.0]]


@families
@shapes
@dtypes
@pytest.mark.parametrize("step", [1e-3, 1.0])
def test_probability_never_falls_when_a_revenue_rises(
    family: str, shape: tuple[int, ...], dtype: torch.dtype, step: float
) -> None:
    full = torch.Size((500, *shape))
    loc, scale = random_parameters(full, dtype)
    revenue = loc + 3.0 * scale * torch.randn(full, dtype=dtype)
    more = revenue + step * scale * torch.rand(full, dtype=dtype).round()
    cost = independent(family, loc, scale, len(shape))
    low, high = (OrderEvent(cost, r).log_probs() for r in (revenue, more))
    assert (high[1] >= low[1]).all()
    assert (high[0] <= low[0]).all()
    assert (high[1] > low[1]).any()


def test_event_between_tensors_is_the_strict_product_order() -> None:
    cost = torch.tensor([[0.0, 1.0], [0.0, 2.0], [-1.0, 1.0], [math.inf, -math.inf]])
    revenue = torch.tensor([1.0, 2.0])
    event = OrderEvent(cost, revenue)
    assert event.batch_shape == (4,)
    assert event.mean.tolist() == [1.0, 0.0, 1.0, 0.0]  # equal is not below
    assert event.log_prob(torch.ones(4)).tolist() == [0.0, -math.inf, 0.0, -math.inf]
    assert event.log_prob(torch.zeros(4)).tolist() == [-math.inf, 0.0, -math.inf, 0.0]
    assert torch.equal(event.sample((3,)), event.mean.expand(3, 4))


def test_integers_count_as_the_default_type() -> None:
    cost = independent("Normal", torch.zeros(2), torch.ones(2))
    assert OrderEvent(cost, torch.tensor([3, 4])).log_prob(torch.tensor(1)).dtype == torch.float32
    assert OrderEvent(torch.tensor([1, 2]), torch.tensor([3, 4])).mean.item() == 1.0


def test_event_with_alternatives_needs_one_of_them() -> None:
    first, second = torch.tensor([0.0, 0.0]), torch.tensor([5.0, 5.0])
    cost = torch.stack([first, second])  # [G, K]
    revenue = torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]], [[6.0, 6.0]]])
    assert OrderEvent(cost, revenue, cost_event_dim=2).mean.tolist() == [1.0, 0.0, 1.0]
    crossed = torch.tensor([[1.0, -1.0], [6.0, 4.0]])  # one coordinate of each
    assert OrderEvent(cost, crossed, cost_event_dim=2).mean.item() == 0.0


@outcomes
@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["K=3", "G=2,K=3"])
def test_given_cost_is_the_event_and_marginalize_its_probability(
    outcome: float, shape: tuple[int, ...]
) -> None:
    cost = independent("Normal", torch.zeros(shape), torch.ones(shape), len(shape))
    event = OrderEvent(cost, torch.randn(4, *shape) + 1.0)
    draw = cost.sample((20_000, 4))
    given = event.given_cost(draw)
    assert given.batch_shape == (20_000, 4)
    below = (draw < event.revenue).all(-1)
    assert torch.equal(given.mean, (below.any(-1) if len(shape) == 2 else below).float())
    again = given.marginalize(cost)
    y = torch.tensor(outcome)
    torch.testing.assert_close(again.log_prob(y), event.log_prob(y), rtol=0, atol=0)
    torch.testing.assert_close(given.mean.mean(0), event.mean, rtol=0, atol=0.02)


@families
@dtypes
@outcomes
def test_random_revenue_of_any_family_against_a_known_cost(
    family: str, dtype: torch.dtype, outcome: float
) -> None:
    u = hard_revenues(10, 1, 3)[:, 0].to(dtype)
    loc, scale = random_parameters(u.shape, dtype)
    cost = loc + scale * u
    event = OrderEvent(cost, independent(family, loc, scale))
    # c < r is -r < -c: an event of the mirrored revenue below the mirrored cost.
    exact = exact_inputs(-loc, scale, -cost)
    assert largest_errors(event, family, exact, outcome) <= TOLERANCE[dtype]


@dtypes
@atoms
@outcomes
def test_gaussian_revenue_and_gaussian_cost_have_the_probability_of_their_difference(
    dtype: torch.dtype, infinite: bool, outcome: float
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
    assert largest_errors(event, "Normal", exact, outcome, of_atom) <= TOLERANCE[dtype]


def normal(*shape: int) -> dist.TorchDistribution:
    return dist.Normal(torch.zeros(shape), torch.ones(shape)).to_event(len(shape))


def laplace() -> dist.TorchDistribution:
    return independent("Laplace", torch.zeros(3), torch.ones(3))


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "random revenue with alternatives": (
        lambda: (normal(2, 3), normal(2, 3)),
        ValueError,
        "alternatives share their revenue",
    ),
    "cost and revenue of different rank": (
        lambda: (normal(3), normal(2, 3)),
        ValueError,
        "cost has event_dim 1, expected 2",
    ),
    "non-Gaussian pair": (
        lambda: (laplace(), normal(3)),
        ValueError,
        "Gaussian cost and Gaussian revenue only, got Laplace and Normal",
    ),
    "correlated cost": (
        lambda: (dist.MultivariateNormal(torch.zeros(2), torch.eye(2)), torch.zeros(2)),
        ValueError,
        "independent coordinates .* got MultivariateNormal",
    ),
    "event_dim 0": (
        lambda: (dist.Normal(torch.zeros(3), 1.0), torch.zeros(3)),
        ValueError,
        r"cost has event_dim 0, expected 1 for \[K\] or 2 for \[G, K\]; use .to_event",
    ),
    "unregistered family": (
        lambda: (dist.StudentT(torch.full((3,), 5.0)).to_event(1), torch.zeros(3)),
        TypeError,
        "StudentT is not a registered cost family .*register_cost_family",
    ),
    "list as revenue": (lambda: (normal(3), [0.0] * 3), TypeError, "revenue must be a tensor or"),
    "two scalars": (lambda: (torch.zeros(()),) * 2, ValueError, "at least 1 dimensions"),
    "NaN revenue": (
        lambda: (normal(2), torch.tensor([0.0, math.nan])),
        ValueError,
        "revenue contains NaN",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_without_a_closed_form_are_refused_at_once(case: str) -> None:
    arguments, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        OrderEvent(*arguments())


def test_validation_can_be_left_out() -> None:
    event = OrderEvent(normal(2), torch.zeros(2))
    with pytest.raises(ValueError, match="value argument"):
        event.log_prob(torch.tensor(0.5))
    with pytest.raises(ValueError, match="value argument"):
        event.expand((3,)).log_prob(torch.tensor(0.5))

    unchecked = OrderEvent(normal(2), torch.tensor([0.0, math.nan]), validate_args=False)
    for same in (
        unchecked,
        unchecked.expand((3,)),
        unchecked.given_cost(torch.zeros(2)),
    ):
        assert same.log_prob(torch.tensor(0.5)).shape == same.batch_shape
    with pyro.validation_enabled(False):
        OrderEvent(normal(2), torch.tensor([0.0, math.nan]))


def test_shared_event_is_expanded_by_a_plate_and_enumerated_there() -> None:
    event = OrderEvent(normal(3), torch.tensor([0.5, 1.0, 1.5]))
    data = torch.tensor([0.2, 1.3, -0.4])

    @config_enumerate
    def model() -> None:
        with pyro.plate("data", 3):
            y = pyro.sample("y", event)
            pyro.sample("x", dist.Normal(2.0 * y, 1.0), obs=data)

    loss = TraceEnum_ELBO(max_plate_nesting=1).loss(model, lambda: None)
    p = event.mean
    mixture = (1.0 - p) * dist.Normal(0.0, 1.0).log_prob(data).exp()
    mixture = mixture + p * dist.Normal(2.0, 1.0).log_prob(data).exp()
    assert loss == pytest.approx(-mixture.log().sum().item(), rel=1e-6)
