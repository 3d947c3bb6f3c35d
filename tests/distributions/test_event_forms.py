"""The forms of an order event: products, logarithms where they underflow, and planes."""

from __future__ import annotations

import math

import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import event_gradients, event_log_probs, normal_quantile, worst_error
from order_event_cases import (
    atoms,
    event_shapes,
    families,
    hard_event,
    hard_revenues,
    independent,
    order_event,
    random_parameters,
)
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.event_forms import SMALLEST_PRODUCT
from pyro_gcm.distributions.numerics import probit


def event_at(family: str, u: Tensor) -> OrderEvent:
    """An order event whose standardised revenues are u [..., K]."""
    return OrderEvent(independent(family, torch.zeros_like(u), torch.ones_like(u)), u)


def around_the_switch(family: str) -> Tensor:
    """Pairs of equal u for which both probabilities cross `SMALLEST_PRODUCT` in small steps."""
    log_p = -math.log(SMALLEST_PRODUCT)
    edge = {"Normal": math.sqrt(2.0 * log_p), "Logistic": log_p, "Laplace": log_p}[family]
    u = torch.linspace(0.6 * edge, 1.1 * edge, 101, dtype=torch.float64)
    return torch.cat([u, -u]).unsqueeze(-1).expand(-1, 2)


@families
@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_log_prob_and_gradient_hold_on_both_sides_of_the_switch(
    family: str, outcome: float
) -> None:
    u = around_the_switch(family).clone().requires_grad_()
    event = event_at(family, u)
    pair = torch.stack(event.probabilities64())
    assert (pair < SMALLEST_PRODUCT).any()  # some rows are on the other side
    assert ((pair > SMALLEST_PRODUCT) & (pair < 1e-200)).any()
    got = event.log_prob(torch.full((len(u),), outcome, dtype=u.dtype))
    (slope,) = torch.autograd.grad(got.sum(), u)
    rows = [[[mpf(v) for v in row]] for row in u.tolist()]
    want = [event_log_probs(family, row)[int(outcome)] for row in rows]
    assert worst_error(got.tolist(), want, 1e-290) <= 1e-12
    exact = [event_gradients(family, row, None, int(outcome))[0][0][0] for row in rows]
    assert worst_error(slope[:, 0].tolist(), exact, 1e-280) <= 1e-10


@families
@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_the_mean_over_draws_takes_the_log_form_for_the_rows_that_need_it(
    family: str, outcome: float
) -> None:
    far = around_the_switch(family)[:101:20, 0]  # [6], from 0.6 of the edge to 1.1
    sign = 1.0 if outcome == 0.0 else -1.0
    u = (sign * (far + torch.tensor([[0.0], [1.5]]))).unsqueeze(-1).expand(2, 6, 2)  # draws, rows
    u = torch.cat([u, torch.zeros(2, 1, 2, dtype=u.dtype)], 1).clone().requires_grad_()
    event = event_at(family, u)
    got = event.log_mean_prob(torch.full((7,), outcome, dtype=u.dtype))
    every = event.log_prob(torch.full((2, 7), outcome, dtype=u.dtype))
    wanted = every.logsumexp(0) - math.log(2.0)
    assert (every[:, 5].exp() < SMALLEST_PRODUCT).all()  # a row in which no draw counts
    torch.testing.assert_close(got, wanted, rtol=1e-13, atol=0.0)
    slopes = [torch.autograd.grad(v.sum(), u, retain_graph=True)[0] for v in (got, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-280)


def test_no_probability_is_above_1() -> None:
    g = torch.Generator().manual_seed(0)
    u = 6.0 * torch.randn(20_000, 5, generator=g, dtype=torch.float64)
    for family in ("Normal", "Logistic", "Laplace"):
        for p in event_at(family, u).probabilities64():
            assert (p <= 1.0).all()


@families
def test_a_revenue_of_minus_zero_is_one_of_zero(family: str) -> None:
    event = event_at(family, torch.tensor([[-0.0], [0.0]]).double())
    for p in (*event.probabilities64(), event.probability64()):
        assert p.tolist() == [0.5, 0.5]


# Coordinate by coordinate: precise, increasing, and the same at every place


@families
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 2)], ids=str)
def test_probit_has_all_digits_in_both_tails(family: str, shape: tuple[int, int]) -> None:
    revenue = hard_revenues(60, *shape).double()
    loc, scale = torch.zeros_like(revenue), torch.ones_like(revenue)
    got = order_event(family, loc, scale, revenue).rising_probit64()
    want = []
    with mp.workdps(60):
        for row, start in zip(revenue.tolist(), got.tolist(), strict=True):
            units = [[mpf(u) for u in alternative] for alternative in row]
            zero, one = event_log_probs(family, units)
            sign = 1.0 if one < zero else -1.0
            want.append(sign * normal_quantile(min(zero, one), sign * start))
    assert worst_error(got.tolist(), want, 1e-2) <= 1e-11


@event_shapes
def test_probit_and_probability_of_infinite_costs_are_those_of_the_logarithms(
    shape: tuple[int, ...],
) -> None:
    event, _ = hard_event("Logistic", 400, shape, torch.float64, infinite=True)
    with torch.no_grad():
        zero, one = event.log_probs64()
        torch.testing.assert_close(event.rising_probit64(), probit(one, zero), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(event.probability64(), one.exp(), rtol=1e-9, atol=1e-300)


@event_shapes
@atoms
@pytest.mark.parametrize(
    ("centre", "unit"), [(0.0, 1.0), (0.0, 1e4), (3.0, 1.0), (-36.0, 1.0)], ids=str
)
def test_neither_form_falls_at_the_smallest_steps_of_a_revenue(
    centre: float, unit: float, infinite: bool, shape: tuple[int, ...]
) -> None:
    full = torch.Size((50_000, *shape))
    loc, scale = (unit * each for each in random_parameters(full, torch.float64))
    revenue = loc + scale * (centre + 3.0 * torch.randn(full))
    revenue = torch.round(revenue * 2.0**40) / 2.0**40
    higher = revenue + 2.0**-40 * torch.randint(3, full)
    cost = independent("Normal", loc, scale, len(shape))
    if infinite:
        cost = InfiniteCost(cost, torch.randn(full[:-1], dtype=torch.float64))
    for form in (OrderEvent.probability64, OrderEvent.rising_probit64):
        low, high = (form(OrderEvent(cost, each)) for each in (revenue, higher))
        assert low.isfinite().all()
        assert (low <= high).all()
        assert (low < high).any() or not high.any()  # a probability may underflow
