"""The inverse of a non-decreasing function is the smallest number that reaches the target."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pyro_gcm._utils.bisection import REACH, rounded_up, smallest_reaching


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
    # Near 1e-9 a step of ndtr, which adds 1, is 2e-8 wide.
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-7)
    assert (function(found) >= level).all()
    assert len(calls) <= 54  # bisection: 64; how flat a step of ndtr is decides a few


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
