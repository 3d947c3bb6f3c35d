"""The product form of the order event, and where the log form takes its place."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import event_log_probs, normal_quantile, worst_error
from order_event_cases import families, independent
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.event_probability import SMALLEST_PRODUCT
from pyro_gcm.distributions.numerics import ndtr


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
    with mp.workdps(60):
        step = mpf(10) ** -20
        moved = [
            event_log_probs(family, [[a + step, b]])[int(outcome)]
            - event_log_probs(family, [[a - step, b]])[int(outcome)]
            for ((a, b),) in rows
        ]
        exact = [difference / (2 * step) for difference in moved]
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


@families
@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["K", "G,K"])
@pytest.mark.parametrize("atom", [False, True], ids=["finite", "infinite"])
def test_both_derivatives_of_the_probabilities_are_right(
    family: str, shape: tuple[int, ...], atom: bool
) -> None:
    g = torch.Generator().manual_seed(0)

    def leaf(*size: int) -> Tensor:
        return torch.randn(size, generator=g, dtype=torch.float64).requires_grad_()

    def probabilities(r: Tensor, loc: Tensor, raw: Tensor, logits: Tensor) -> tuple[Tensor, ...]:
        cost = independent(family, loc, raw.exp(), len(shape))
        return OrderEvent(InfiniteCost(cost, logits) if atom else cost, r).probabilities64()

    # The revenue is shared by the rows, so that its gradient is a sum.
    inputs = leaf(shape[-1]), leaf(2, *shape), leaf(*shape), leaf(*shape[:-1])
    assert torch.autograd.gradcheck(probabilities, inputs)
    assert torch.autograd.gradgradcheck(probabilities, inputs)


def test_draws_that_are_all_alike_have_the_mean_of_one() -> None:
    event = event_at("Normal", torch.tensor([[0.3, -0.2], [1.0, 2.0]]))
    y = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(event.expand((5, 2)).log_mean_prob(y), event.log_prob(y).double())


def test_rare_outcomes_of_a_family_with_a_constructor_of_its_own() -> None:
    class MeanAndSd(dist.Normal):
        def __init__(self, mean: Tensor, sd: Tensor) -> None:
            super().__init__(mean, sd)

    cost = MeanAndSd(torch.zeros(2), torch.ones(2)).to_event(1)
    for u in (-1.0, -60.0):
        r, y = torch.full((2,), u), torch.ones(())
        mine = OrderEvent(cost, r).log_prob(y)
        torch.testing.assert_close(mine, event_at("Normal", r).log_prob(y))


def test_no_probability_is_above_1() -> None:
    g = torch.Generator().manual_seed(0)
    u = 6.0 * torch.randn(20_000, 5, generator=g, dtype=torch.float64)
    for family in ("Normal", "Logistic", "Laplace"):
        for p in event_at(family, u).probabilities64():
            assert (p <= 1.0).all()


def test_an_infinite_revenue_has_slope_0_in_everything() -> None:
    loc, scale = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)
    r = torch.tensor([math.inf, 0.5], requires_grad=True)
    event = OrderEvent(dist.Normal(loc, scale).to_event(1), r)
    event.probabilities64()[1].backward()
    for leaf in (loc, scale, r):
        assert leaf.grad is not None
        assert leaf.grad[0] == 0.0
        assert leaf.grad[1] != 0.0


def test_the_probit_of_one_gaussian_cost_is_its_standardised_revenue() -> None:
    u = torch.tensor([-50.0, -9.0, -0.3, 0.0, 2.0, 37.0, math.inf], dtype=torch.float64)
    loc = torch.full((7, 1), 0.25, dtype=torch.float64, requires_grad=True)
    event = OrderEvent(dist.Normal(loc, 2.0).to_event(1), (0.25 + 2.0 * u).unsqueeze(-1))
    torch.testing.assert_close(event.probit64(), u, rtol=1e-15, atol=0.0)
    (slope,) = torch.autograd.grad(event.probit64().sum(), loc)
    assert slope.squeeze(-1).tolist() == [-0.5] * 6 + [0.0]
    two = event_at("Normal", u[1:6].unsqueeze(-1).expand(-1, 2).clone())
    want = []
    for v in u[1:6].tolist():
        log_zero, log_one = event_log_probs("Normal", [[mpf(v), mpf(v)]])
        tail = normal_quantile(min(log_zero, log_one), -abs(v) - 0.1)
        want.append(tail if log_one < log_zero else -tail)
    assert worst_error(two.probit64().tolist(), want, 1e-10) <= 1e-12


def test_the_normal_distribution_function_keeps_its_lower_tail() -> None:
    x = torch.tensor([-37.0, -20.0, -9.0, -8.0, -1.0, 0.0, 3.0], dtype=torch.float64)
    want = [mp.ncdf(mpf(v)) for v in x.tolist()]
    assert worst_error(ndtr(x).tolist(), want, 1e-300) <= 1e-12
    assert torch.special.ndtr(x[2]) == 0.0  # what it replaces


@families
def test_a_revenue_of_minus_zero_is_one_of_zero(family: str) -> None:
    zero, one = event_at(family, torch.tensor([[-0.0], [0.0]]).double()).probabilities64()
    assert zero.tolist() == one.tolist() == [0.5, 0.5]
