"""Functions of log-probabilities keep every digit in both tails, and the inverse of a function."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import complement, normal_quantile, tails, worst_error
from torch import Tensor

from pyro_gcm.distributions.bisection import REACH, smallest_reaching
from pyro_gcm.distributions.numerics import (
    first_terms,
    log1mexp,
    log_any,
    ndtri_exp,
    normal_log_tails,
    probit,
    rounded_up,
)

LOG_PROBABILITIES = [
    *(-(10.0**k) for k in (12, 9, 6, 4, 3)),
    *(
        -750.0,
        -600.5,
        -599.5,
        -100.0,
        -10.0,
        -1.0,
        -0.7,
        -math.log(2.0),
        -0.6931,
        -0.5,
        -0.1,
    ),
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
    # The median is 0: relative error has no meaning near it.
    assert worst_error([value], [exact], floor=1e-3) < 1e-13
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
    assert worst_error([value], [-side * exact], floor=1e-3) < 1e-13
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
    slopes = [
        mp.exp(exact.log_density - exact.log_p),
        -mp.exp(exact.log_density - exact.log_q),
    ]
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
    rows = [
        [impossible, impossible],
        [impossible, fair],
        [certain, fair],
        [certain, impossible],
    ]
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


def test_rounding_is_upwards() -> None:
    values = torch.randn(1000, dtype=torch.float64)
    rounded = rounded_up(values, torch.float32)
    assert rounded.dtype == torch.float32
    assert (rounded >= values).all()
    assert (torch.nextafter(rounded, torch.tensor(-math.inf)) < values).all()
    ends = torch.tensor([math.inf, -math.inf, 0.0], dtype=torch.float64)
    assert torch.equal(rounded_up(ends, torch.float32), ends.float())
    assert torch.equal(rounded_up(values, torch.float64), values)


# The inverse of a non-decreasing function


def test_bisection_finds_steps_and_far_away_values() -> None:
    at = torch.tensor([-9e5, -3.0, 0.0, 1e-9, 7.25, 4e5], dtype=torch.float64)
    zero, one = torch.zeros(6).double(), torch.ones(6).double()
    found = smallest_reaching(lambda v: (v >= at).double(), 0.5, zero, one)
    torch.testing.assert_close(found, at, rtol=1e-12, atol=1e-12)
    assert (found >= at).all()  # the side on which the level is reached
    far = smallest_reaching(lambda v: (v >= 8.0 * REACH).double(), 0.5, zero, one)
    assert (far == math.inf).all()
    always = smallest_reaching(lambda v: torch.ones_like(v), 0.5, zero, one)
    assert (always == -math.inf).all()


def counted(function: Callable[[Tensor], Tensor]) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    calls: list[int] = []

    def counting(v: Tensor) -> Tensor:
        calls.append(len(v))
        return function(v)

    return counting, calls


@pytest.mark.parametrize("level", [1e-9, 0.3, 0.999])
def test_smooth_function_takes_few_evaluations(level: float) -> None:
    loc = torch.linspace(-3.0, 5.0, 50, dtype=torch.float64)
    scale = torch.linspace(0.1, 2.0, 50, dtype=torch.float64)
    function, calls = counted(lambda v: torch.special.ndtr((v - loc) / scale))
    found = smallest_reaching(function, level, torch.zeros_like(loc), torch.ones_like(loc))
    wanted = loc + scale * torch.special.ndtri(torch.tensor(level, dtype=torch.float64))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    assert (function(found) >= level).all()
    assert len(calls) <= 45  # bisection: 64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_no_smaller_number_of_the_type_reaches_the_target(dtype: torch.dtype) -> None:
    at = torch.tensor([-1234.5, -0.1, 0.1, 0.7, 77.7, 31415.9], dtype=torch.float64) + 1.0 / 3.0

    def function(v: Tensor) -> Tensor:
        return torch.sigmoid(v - at) + (v >= at).double()

    loc, scale = torch.zeros(6), torch.ones(6)
    found = smallest_reaching(function, 1.0, loc, scale, dtype)
    assert found.dtype == dtype
    assert (found.double() >= at).all()
    below = torch.nextafter(found, torch.full_like(found, -math.inf))
    assert (below.double() < at).all()


def test_hard_functions_end_too() -> None:
    shapes: list[Callable[[Tensor], Tensor]] = [
        lambda v: (v - 0.3).sign() * (v - 0.3).abs() ** 0.05,
        lambda v: (v - 0.3) ** 21,
        lambda v: torch.floor(v * 7.0) / 7.0 - 0.2,
        lambda v: 1e300 * (v >= 0.3).double() - 1e-300,
    ]
    for shape in shapes:
        function, calls = counted(shape)
        found = smallest_reaching(function, 0.0, torch.zeros(1), torch.ones(1))
        assert function(found) >= 0.0
        assert len(calls) < 110
        if shape is not shapes[1]:  # which is flat at its root
            assert function(found - 1e-12) < 0.0
