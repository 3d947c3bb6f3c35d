"""Roundings that keep the order of numbers, and their slopes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import worst_error
from torch import Tensor

from pyro_gcm.distributions.numerics import log_any, ndtr
from pyro_gcm.distributions.products import coarse, on_grid


def test_the_normal_distribution_function_keeps_its_lower_tail() -> None:
    x = torch.tensor([-37.0, -20.0, -9.0, -8.0, -1.0, 0.0, 3.0], dtype=torch.float64)
    want = [mp.ncdf(mpf(v)) for v in x.tolist()]
    assert worst_error(ndtr(x).tolist(), want, 1e-300) <= 1e-12
    assert torch.special.ndtr(x[2]) == 0.0  # what it replaces


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
