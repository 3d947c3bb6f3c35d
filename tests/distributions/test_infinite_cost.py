"""A cost that may be infinite: its density, its order event, and the costs given the outcome."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import worst_error
from order_event_cases import (
    LOGITS,
    dtypes,
    event_shapes,
    fair_event,
    hard_event,
    independent,
    outcomes,
    random_parameters,
)
from samplers import DIFFERENT, agreement
from scipy import integrate

from pyro_gcm.distributions import InfiniteCost, OrderEvent

families = pytest.mark.parametrize("family", ["Normal", "Logistic"])
shapes = pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (3, 2), (4, 1)], ids=str)

# Its order event


@families
@shapes
def test_probability_is_that_of_the_story(shape: tuple[int, ...], family: str) -> None:
    event = fair_event(shape, family, (4,), infinite=True)
    base, count = event.cost.cost.base_dist, 40_000
    c = base.sample((count,))
    gone = torch.rand(count, 4, *shape[:-1], dtype=torch.float64) < event.cost.logits.sigmoid()
    hit = (c < event.revenue).all(-1) & ~gone
    y = (hit.any(-1) if len(shape) == 2 else hit).double()
    p = event.mean
    error = (p * (1.0 - p) / count).sqrt()
    assert ((y.mean(0) - p).abs() < 5.0 * error).all()
    of_draws = event.given_cost(event.cost.sample((count,))).mean.mean(0)
    assert ((of_draws - p).abs() < 5.0 * error).all()


@shapes
@dtypes
def test_no_revenue_takes_the_probability_above_one_minus_p0(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    event = fair_event(shape, batch_shape=(5,), dtype=dtype, infinite=True)
    p0 = event.cost.p0.prod(-1) if len(shape) == 2 else event.cost.p0
    at_infinity = OrderEvent(event.cost, torch.full(shape, math.inf, dtype=dtype))
    torch.testing.assert_close(at_infinity.mean, 1.0 - p0)
    torch.testing.assert_close(at_infinity.log_probs()[0], p0.log())
    ways = torch.linspace(-5.0, 60.0, 100, dtype=dtype).reshape(-1, 1, *(1,) * len(shape))
    rising = OrderEvent(event.cost, event.revenue + ways).log_probs64()[1]
    assert (rising.diff(dim=0) >= 0.0).all()
    assert (rising <= at_infinity.log_probs64()[1]).all()
    assert (rising[0] < at_infinity.log_probs64()[1] - 0.1).all()


@outcomes
@event_shapes
def test_infinite_revenue_passes_a_gradient_to_the_logits_alone(
    shape: tuple[int, ...], outcome: float
) -> None:
    leaves = [torch.zeros(shape), torch.ones(shape), torch.tensor(-1.0)]
    loc, scale, logits = (leaf.requires_grad_() for leaf in leaves)
    revenue = torch.full(shape, math.inf, requires_grad=True)
    cost = InfiniteCost(independent("Normal", loc, scale, len(shape)), logits)
    OrderEvent(cost, revenue).log_prob(torch.tensor(outcome)).backward()
    assert all(not leaf.grad.any() for leaf in (loc, scale, revenue))
    alternatives, p0 = (1 if len(shape) == 1 else shape[0]), logits.detach().sigmoid()
    slope = alternatives * (1.0 - p0)  # of log p0^G
    if outcome:
        slope = -slope * p0**alternatives / (1.0 - p0**alternatives)
    torch.testing.assert_close(logits.grad, slope)


def test_infinite_cost_is_below_no_revenue() -> None:
    cost = InfiniteCost(independent("Normal", torch.zeros(2), torch.ones(2)), torch.tensor(0.0))
    c = torch.tensor([[math.inf, math.inf], [0.0, 0.0], [0.0, math.inf]])
    for r, y in ((math.inf, [0.0, 1.0, 0.0]), (5.0, [0.0, 1.0, 0.0]), (-math.inf, [0.0] * 3)):
        assert OrderEvent(cost, torch.full((2,), r)).given_cost(c).mean.tolist() == y
    rows = OrderEvent(c, torch.full((2,), math.inf), cost_event_dim=2)
    assert rows.mean.item() == 1.0  # its second alternative
    revenue = independent("Normal", torch.zeros(2), torch.ones(2))
    assert OrderEvent(cost, revenue).given_cost(c).mean.tolist() == [0.0, 0.25, 0.0]


@families
@shapes
def test_without_an_infinite_cost_it_is_the_plain_event(
    shape: tuple[int, ...], family: str
) -> None:
    event, leaves = hard_event(family, 40, shape, torch.float64, infinite=True)
    plain = event.cost.cost
    never = InfiniteCost(plain, leaves["logits"] * 0.0 - math.inf)
    with_atom, without = (OrderEvent(cost, leaves["revenue"]) for cost in (never, plain))
    for got, want in zip(with_atom.log_probs(), without.log_probs(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-300)
        slopes = torch.autograd.grad(got.sum(), list(leaves.values()), retain_graph=True)
        plain_slopes = torch.autograd.grad(want.sum(), list(leaves.values())[:3], retain_graph=True)
        for slope, other in zip(slopes, plain_slopes, strict=False):
            torch.testing.assert_close(slope, other, rtol=1e-12, atol=1e-300)
        assert not slopes[3].any()
    c = never.sample((50,))
    assert c.isfinite().all()
    torch.testing.assert_close(never.log_prob(c), plain.log_prob(c), rtol=1e-14, atol=0.0)
    assert torch.equal(never.mean, plain.mean)
    assert torch.equal(never.variance, plain.variance)


@shapes
def test_certainly_infinite_cost_never_happens(shape: tuple[int, ...]) -> None:
    plain = independent("Normal", torch.zeros(shape), torch.ones(shape), len(shape))
    logits = torch.tensor(math.inf, requires_grad=True)
    event = OrderEvent(InfiniteCost(plain, logits), torch.ones(shape))
    assert [term.item() for term in event.log_probs()] == [0.0, -math.inf]
    assert torch.autograd.grad(event.log_probs()[0], logits)[0].item() == 0.0
    assert event.cost.sample((20,)).isposinf().all()
    assert event.cost_posterior(torch.tensor(0.0)).sample((20,)).isposinf().all()


# The distribution itself


def test_density_is_that_of_each_alternative_finite_infinite_or_neither() -> None:
    loc = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    logits = torch.tensor([-1.0, 0.5], dtype=torch.float64)
    cost = InfiniteCost(independent("Normal", loc, torch.ones_like(loc), 2), logits)
    row = dist.Normal(loc, 1.0).log_prob(torch.tensor(0.5)).sum(-1)
    finite, infinite = (1.0 - logits.sigmoid()).log() + row, logits.sigmoid().log()
    inf, at = math.inf, 0.5
    expected = {
        ((at, at), (at, at)): finite.sum(),
        ((inf, inf), (at, at)): infinite[0] + finite[1],
        ((at, at), (inf, inf)): finite[0] + infinite[1],
        ((inf, inf), (inf, inf)): infinite.sum(),
        ((inf, at), (at, at)): -inf,
        ((at, at), (at, inf)): -inf,
        ((-inf, -inf), (at, at)): -inf,
        ((inf, -inf), (at, at)): -inf,
    }
    for value, log_p in expected.items():
        got = cost.log_prob(torch.tensor(value, dtype=torch.float64))
        torch.testing.assert_close(got, torch.as_tensor(log_p, dtype=torch.float64))


@families
@dtypes
@event_shapes
def test_density_has_finite_gradients_also_at_infinity(
    shape: tuple[int, ...], dtype: torch.dtype, family: str
) -> None:
    full = (20, *shape)
    loc, scale = random_parameters(torch.Size(full), dtype)
    logits = torch.tensor([*LOGITS, -math.inf, math.inf, 0.0] * 2, dtype=dtype)
    logits = logits.reshape(20, *(1,) * (len(shape) - 1))
    value = torch.randn(full, dtype=dtype)
    value[::2] = math.inf
    value[::3, ..., 0] = math.inf
    value[1] = -math.inf
    leaves = [leaf.requires_grad_() for leaf in (loc, scale, logits, value)]
    cost = InfiniteCost(independent(family, loc, scale, len(shape)), logits)
    log_p = cost.log_prob(value)
    assert log_p.dtype == dtype
    log_p.sum().backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)
    assert not loc.grad[0].any()


@families
def test_density_and_atom_have_mass_one(family: str) -> None:
    logits = torch.tensor(0.3, dtype=torch.float64)
    cost = independent(family, torch.tensor([0.5]).double(), torch.tensor([0.7]).double())
    cost = InfiniteCost(cost, logits)

    def density(c: float) -> float:
        return cost.log_prob(torch.tensor([c], dtype=torch.float64)).exp().item()

    mass = sum(integrate.quad(density, a, b)[0] for a, b in [(-60.0, 0.5), (0.5, 60.0)])
    assert mass == pytest.approx(1.0 - cost.p0.item(), abs=1e-8)
    assert density(math.inf) == pytest.approx(cost.p0.item(), rel=1e-12)


@event_shapes
def test_draws_have_infinite_alternatives_with_probability_p0(shape: tuple[int, ...]) -> None:
    count = 20_000
    event = fair_event(shape, batch_shape=(3,), infinite=True)
    c = event.cost.sample((count,))
    gone = c.isposinf()
    assert (gone.all(-1) == gone.any(-1)).all()
    p0 = event.cost.p0
    error = 5.0 * (p0 * (1.0 - p0) / count).sqrt()
    assert ((gone.all(-1).double().mean(0) - p0).abs() < error).all()
    if len(shape) == 2:  # independently
        both = gone.all(-1).all(-1).double().mean(0)
        assert ((both - p0.prod(-1)).abs() < 5.0 / count**0.5).all()
    values = c[c.isfinite().flatten(1).all(-1)]
    others = event.cost.cost.sample((len(values),))
    assert len(values) > 50
    assert agreement(values, others) > DIFFERENT


def test_log_probabilities_of_the_atom_have_their_digits() -> None:
    logits = torch.tensor([-800.0, *LOGITS, 800.0], dtype=torch.float64)
    cost = InfiniteCost(independent("Normal", torch.zeros(9, 2), torch.ones(9, 2)), logits)
    with mp.workdps(400):
        infinite = [-mp.log1p(mp.exp(-mpf(v))) for v in logits.tolist()]
        finite = [-mp.log1p(mp.exp(mpf(v))) for v in logits.tolist()]
        assert worst_error(cost.log_infinite.tolist(), infinite, 1e-290) < 1e-15
        assert worst_error(cost.log_finite.tolist(), finite, 1e-290) < 1e-15
        assert worst_error(cost.p0.tolist(), [mp.exp(v) for v in infinite], 1e-290) < 1e-13


def test_mean_is_infinite_where_the_cost_may_be() -> None:
    logits = torch.tensor([-math.inf, -800.0, 0.0])
    cost = InfiniteCost(independent("Normal", torch.ones(3, 2), 2 * torch.ones(3, 2)), logits)
    assert cost.mean.tolist() == [[1.0, 1.0], [math.inf] * 2, [math.inf] * 2]
    assert cost.variance.tolist() == [[4.0, 4.0], [math.inf] * 2, [math.inf] * 2]


@event_shapes
def test_logits_broadcast_against_the_batch_and_the_alternatives(shape: tuple[int, ...]) -> None:
    rows = shape[:-1]
    plain = independent("Normal", torch.zeros(5, *shape), torch.ones(5, *shape), len(shape))
    for size in ((), (5, *(1,) * len(rows)), rows, (5, *rows), (4, 1, *rows)):
        cost = InfiniteCost(plain, torch.randn(size))
        batch = torch.broadcast_shapes((5,), size[: len(size) - len(rows)])
        assert (cost.batch_shape, cost.event_shape) == (batch, shape)
        assert cost.p0.shape == cost.log_finite.shape == cost.log_infinite.shape == batch + rows
        assert OrderEvent(cost, torch.zeros(6, *(1,) * len(batch), *shape)).mean.shape == (
            6,
            *batch,
        )


def plain_cost(family: str = "Normal") -> Any:
    return independent(family, torch.zeros(2), torch.ones(2))


def infinite(cost: Any) -> InfiniteCost:
    return InfiniteCost(cost, torch.tensor(0.0))


REFUSED: dict[str, tuple[Any, str]] = {
    "event_dim 0": (
        lambda: infinite(dist.Normal(torch.zeros(2), 1.0)),
        "cost has event_dim 0",
    ),
    "correlated cost": (
        lambda: infinite(dist.MultivariateNormal(torch.zeros(2), torch.eye(2))),
        "independent coordinates .* got MultivariateNormal",
    ),
    "infinite twice": (lambda: infinite(infinite(plain_cost())), "independent .* got InfiniteCost"),
    "infinite revenue": (
        lambda: OrderEvent(plain_cost(), infinite(plain_cost())),
        "independent coordinates .* got InfiniteCost",
    ),
    "infinite cost under to_event": (
        lambda: OrderEvent(infinite(plain_cost()).expand((3,)).to_event(1), torch.zeros(3, 2)),
        "independent coordinates .* got InfiniteCost",
    ),
    "NaN logits": (lambda: InfiniteCost(plain_cost(), torch.tensor(math.nan)), "logits"),
    "non-Gaussian pair": (
        lambda: OrderEvent(infinite(plain_cost("Laplace")), plain_cost()),
        "Gaussian cost and Gaussian revenue only, got Laplace and Normal",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_without_a_meaning_are_refused(case: str) -> None:
    build, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        build()


def test_validation_can_be_left_out() -> None:
    plain = independent("Normal", torch.zeros(2), torch.ones(2))
    InfiniteCost(plain, torch.tensor(math.nan), validate_args=False)
    cost = InfiniteCost(plain, torch.tensor(0.0))
    for checked in (cost, cost.expand((3,))):
        with pytest.raises(ValueError, match="value argument"):
            checked.log_prob(torch.full((2,), math.nan))
