"""The inverse of a non-decreasing function is the smallest number that reaches the target."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pyro_gcm._utils.bisection import REACH, rounded_up, smallest_reaching


def counted(function: Callable[[Tensor], Tensor]) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    calls: list[int] = []

    def counting(v: Tensor) -> Tensor:
        calls.append(len(v))
        return function(v)

    return counting, calls


def test_rounding_is_upwards() -> None:
    values = torch.randn(1000, dtype=torch.float64)
    rounded = rounded_up(values, torch.float32)
    assert rounded.dtype == torch.float32
    assert (rounded >= values).all()
    assert (torch.nextafter(rounded, torch.tensor(-math.inf)) < values).all()
    ends = torch.tensor([math.inf, -math.inf, 0.0], dtype=torch.float64)
    assert torch.equal(rounded_up(ends, torch.float32), ends.float())


def test_the_smallest_number_of_the_type_is_found_at_steps_and_far_away() -> None:
    steps = torch.tensor([-9e5, -1234.5, -0.1, 0.0, 1e-9, 77.7, 4e5], dtype=torch.float64) + 1 / 3
    zero, one = torch.zeros(7).double(), torch.ones(7).double()
    for dtype in (torch.float32, torch.float64):

        def function(v: Tensor) -> Tensor:
            return torch.sigmoid(v - steps) + (v >= steps).double()

        smallest = smallest_reaching(function, 1.0, zero, one, dtype)
        assert smallest.dtype == dtype
        assert (smallest.double() >= steps).all()
        below = torch.nextafter(smallest, torch.full_like(smallest, -math.inf))
        assert (below.double() < steps).all()
    far = smallest_reaching(lambda v: (v >= 8.0 * REACH).double(), 0.5, zero, one)
    assert (far == math.inf).all()
    always = smallest_reaching(lambda v: torch.ones_like(v), 0.5, zero, one)
    assert (always == -math.inf).all()


def test_smooth_functions_take_few_evaluations_and_hard_ones_end() -> None:
    loc = torch.linspace(-3.0, 5.0, 50, dtype=torch.float64)
    scale = torch.linspace(0.1, 2.0, 50, dtype=torch.float64)
    for level in (1e-9, 0.3, 0.999):
        function, calls = counted(lambda v: torch.special.ndtr((v - loc) / scale))
        smallest = smallest_reaching(function, level, torch.zeros_like(loc), torch.ones_like(loc))
        wanted = loc + scale * torch.special.ndtri(torch.tensor(level, dtype=torch.float64))
        # Near 1e-9 a step of ndtr, which adds 1, is 2e-8 wide.
        torch.testing.assert_close(smallest, wanted, rtol=1e-9, atol=1e-7)
        assert (function(smallest) >= level).all()
        assert len(calls) <= 54  # bisection: 64; how flat a step of ndtr is decides a few
    shapes: list[Callable[[Tensor], Tensor]] = [
        lambda v: (v - 0.3) ** 21,
        lambda v: (v - 0.3).sign() * (v - 0.3).abs() ** 0.05,
        lambda v: torch.floor(v * 7.0) / 7.0 - 0.2,
        lambda v: 1e300 * (v >= 0.3).double() - 1e-300,
    ]
    for shape in shapes:
        function, calls = counted(shape)
        smallest = smallest_reaching(function, 0.0, torch.zeros(1), torch.ones(1))
        assert function(smallest) >= 0.0
        assert len(calls) < 110
        if shape is not shapes[0]:  # which is flat at its root
            assert function(smallest - 1e-12) < 0.0
