"""The inverse of a non-decreasing function."""

from __future__ import annotations

import math

import torch

from pyro_gcm.sampling.bisection import REACH, smallest_reaching


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
