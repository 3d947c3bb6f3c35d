"""Functions of log-probabilities keep every digit in both tails."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import complement, normal_quantile, tails, worst_error
from torch import Tensor

from pyro_gcm.distributions.numerics import (
    first_terms,
    log1mexp,
    log_any,
    ndtri_exp,
    normal_log_tails,
    probit,
)
from pyro_gcm.distributions.products import coarse, on_grid

LOG_PROBABILITIES = [
    *(-(10.0**k) for k in (12, 9, 6, 4, 3)),
    *(-750.0, -600.5, -599.5, -100.0, -10.0, -1.0, -0.7, -math.log(2.0), -0.6931, -0.5, -0.1),
    *(-(10.0**-k) for k in (3, 9, 17, 100, 300)),
]
POINTS = [0.0, 1e-8, 0.3, 1.0, 2.5, 8.3, 37.6, 40.0, 1e3, 1e5]
POINTS = [-u for u in POINTS[:0:-1]] + POINTS

log_probabilities = pytest.mark.parametrize("log_p", LOG_PROBABILITIES, ids="log_p={:.6g}".format)
points = pytest.mark.parametrize("point", POINTS, ids="u={:g}".format)


def value_and_slope(function: Callable[[torch.Tensor], torch.Tensor], at: float):
    argument = torch.tensor([at], dtype=torch.float64, requires_grad=True)
    value = function(argument)
    (slope,) = torch.autograd.grad(value.sum(), argument)
    return value.item(), slope.item()


def mills_ratio(x: mpf) -> mpf:
    at = tails("Normal", x)
    return mp.exp(at.log_p - at.log_density)


@log_probabilities
def test_ndtri_exp_inverts_a_log_probability_of_any_size(log_p: float) -> None:
    value, slope = value_and_slope(ndtri_exp, log_p)
    exact = normal_quantile(log_p, value)
    # The median is 0: near it, a rounding of p = 0.5 is all of the value.
    assert worst_error([value], [exact], floor=0.01) < 1e-13
    assert worst_error([slope], [mills_ratio(exact)], floor=0.0) < 1e-11


@log_probabilities
@pytest.mark.parametrize("side", [-1.0, 1.0], ids=["lower tail", "upper tail"])
def test_probit_has_the_digits_of_the_smaller_probability(log_p: float, side: float) -> None:
    smaller = min(log_p, float(complement(mpf(log_p))))

    def from_pair(log_smaller: torch.Tensor) -> torch.Tensor:
        log_larger = log1mexp(log_smaller)
        pair = (log_smaller, log_larger) if side < 0 else (log_larger, log_smaller)
        return probit(*pair)

    value, slope = value_and_slope(from_pair, smaller)
    exact = normal_quantile(smaller, -abs(value))
    assert worst_error([value], [-side * exact], floor=0.01) < 1e-13
    assert worst_error([slope], [-side * mills_ratio(exact)], floor=0.0) < 1e-11


def test_certain_probabilities_have_infinite_quantiles_and_no_gradient() -> None:
    log_p = torch.tensor([-math.inf, 0.0], dtype=torch.float64, requires_grad=True)
    log_q = torch.tensor([0.0, -math.inf], dtype=torch.float64, requires_grad=True)
    from_one = ndtri_exp(log_p)
    assert from_one.tolist() == [-math.inf, math.inf]
    assert torch.autograd.grad(from_one.sum(), log_p)[0].tolist() == [0.0, 0.0]
    quantiles = probit(log_p, log_q)
    assert quantiles.tolist() == [-math.inf, math.inf]
    quantiles.sum().backward()
    assert log_p.grad.tolist() == [0.0, 0.0]
    assert log_q.grad.tolist() == [0.0, 0.0]


@points
def test_normal_tails_are_exact_with_their_gradient(point: float) -> None:
    exact = tails("Normal", mpf(point))
    standard = torch.tensor(0.0), torch.tensor(1.0)
    log_p, up = value_and_slope(lambda u: normal_log_tails(u, *standard)[0], point)
    log_q, down = value_and_slope(lambda u: normal_log_tails(u, *standard)[1], point)
    assert worst_error([log_p, log_q], [exact.log_p, exact.log_q], floor=1e-290) < 1e-12
    slopes = [mp.exp(exact.log_density - exact.log_p), -mp.exp(exact.log_density - exact.log_q)]
    assert worst_error([up, down], slopes, floor=1e-290) < 1e-12


def test_second_derivatives_are_not_lost_in_the_closed_gradients() -> None:
    log_p = torch.linspace(-30.0, -0.1, 13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(ndtri_exp, log_p)
    value = torch.linspace(-6.0, 6.0, 12, dtype=torch.float64, requires_grad=True)
    loc = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)

    def log_tails(*arguments: torch.Tensor) -> torch.Tensor:
        return torch.stack(normal_log_tails(*arguments))

    assert torch.autograd.gradcheck(log_tails, (value, loc, scale))
    assert torch.autograd.gradgradcheck(log_tails, (value, loc, scale))


@log_probabilities
def test_log1mexp_keeps_the_digits_on_both_sides_of_one_half(log_p: float) -> None:
    value, slope = value_and_slope(log1mexp, log_p)
    exact = complement(mpf(log_p))
    assert worst_error([value], [exact], floor=1e-290) < 1e-14
    assert worst_error([slope], [-mp.exp(log_p - exact)], floor=1e-290) < 1e-13


def test_log1mexp_at_its_ends() -> None:
    ends = torch.tensor([-math.inf, 0.0], dtype=torch.float64)
    assert log1mexp(ends).tolist() == [0.0, -math.inf]
    assert value_and_slope(log1mexp, -math.inf) == (0.0, 0.0)


def test_certain_and_impossible_events_get_no_gradient_and_spoil_no_other() -> None:
    impossible, certain = (-math.inf, 0.0), (0.0, -math.inf)
    fair = (-math.log(2.0), -math.log(2.0))
    rows = [[impossible, impossible], [impossible, fair], [certain, fair], [certain, impossible]]
    pairs = torch.tensor(rows, dtype=torch.float64)
    log_hit = pairs[..., 0].requires_grad_()
    at_least_one = log_any(log_hit, pairs[..., 1])
    assert at_least_one.tolist() == [-math.inf, -math.log(2.0), 0.0, 0.0]
    at_least_one.sum().backward()
    assert log_hit.grad.tolist() == [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_first_hit_terms_share_out_the_probability_that_any_event_happens() -> None:
    p = torch.tensor([0.2, 0.5, 0.7], dtype=torch.float64)
    terms = first_terms(p.log(), torch.log1p(-p)).exp()
    torch.testing.assert_close(terms, torch.tensor([0.2, 0.8 * 0.5, 0.4 * 0.7]).double())
    at_least_one = log_any(p.log(), torch.log1p(-p)).exp()
    torch.testing.assert_close(at_least_one, terms.sum())


SPECIAL = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, 1e-300, 0.1, 1e300, math.inf, -math.inf],
    dtype=torch.float64,
)


def test_coarse_values_are_close_and_of_the_same_sign() -> None:
    values = torch.cat([SPECIAL, torch.randn(2000, dtype=torch.float64).exp()])
    rounded = coarse(values)
    normal = values.isfinite() & (values.abs() > 1e-300)
    relative = (rounded / values)[normal]
    assert ((relative <= 1.0) & (relative > 1.0 - 2.0**-40)).all()
    assert torch.equal(rounded[values.isinf()], values[values.isinf()])
    assert torch.equal(coarse(rounded), rounded)
    assert coarse(torch.tensor(1.0 - 2.0**-53, dtype=torch.float64)) < 1.0
    assert torch.equal(coarse(values.reshape(-1, 1).T), rounded.reshape(1, -1))


def test_coarse_values_keep_their_order_and_stand_apart() -> None:
    start = torch.cat([SPECIAL[:-2], torch.randn(3000, dtype=torch.float64)])
    up = torch.nextafter(start, torch.full_like(start, math.inf))
    a, b = coarse(start), coarse(up)
    assert (b >= a).all()
    # Chains that cross the grid: neighbours on it are 2^-42 of their size apart, or equal.
    ladder = 1.0 + torch.arange(20_000, dtype=torch.float64) * 2.0**-52
    steps = coarse(ladder).unique().diff()
    assert (steps >= 2.0**-42).all()
    assert len(steps) > 5


def test_coarse_leaves_single_precision_alone() -> None:
    values = torch.randn(100)
    assert coarse(values) is values


def test_grid_is_coarse_and_rounds_to_the_nearest() -> None:
    values = torch.randn(3000, dtype=torch.float64) * 100.0
    rounded = on_grid(values)
    assert torch.equal(on_grid(rounded), rounded)
    assert ((rounded - values).abs() <= 2.0**-41 + values.abs() * 2.0**-41).all()
    assert torch.equal(on_grid(values.float()), on_grid(values.float().double()))
    steps = on_grid(torch.arange(9000.0, dtype=torch.float64) * 2.0**-43).unique().diff()
    assert (steps == 2.0**-40).all()
    assert torch.equal(on_grid(SPECIAL[-2:]), SPECIAL[-2:])


@pytest.mark.parametrize("function", [coarse, on_grid])
def test_rounded_values_have_a_slope_of_1(function: Callable[[Tensor], Tensor]) -> None:
    values = torch.randn(9, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(values).sum(), values)
    assert (slope == 1.0).all()
    assert torch.equal(function(values).detach(), function(values.detach()))
