"""Probabilities of intervals against mpmath: narrow ones, far tails, and gradients."""

from __future__ import annotations

import pyro.distributions as dist
import torch
from mpmath import mp, mpf
from mpmath_reference import DIGITS, standardized, tails
from order_event_cases import families

from pyro_gcm.distributions.event_curve import log_interval

LOWER = (-60.0, -30.0, -7.0, -1.0, -1e-3, 0.0, 0.4, 3.0, 12.0, 40.0)
WIDTHS = (1e-12, 1e-6, 1e-3, 0.03, 0.5, 1.0, 4.0, 30.0)
LOC, SCALE = 0.25, 1.5


def reference(family: str, low: float, high: float) -> mpf:
    """log(F(high) - F(low)) from the tails on the side where they are small."""
    with mp.workdps(DIGITS):
        a, b = (tails(family, standardized(v, LOC, SCALE)) for v in (low, high))
        return mp.log(
            mp.exp(a.log_q) - mp.exp(b.log_q)
            if a.log_p > a.log_q
            else mp.exp(b.log_p) - mp.exp(a.log_p)
        )


@families
def test_intervals_are_exact_however_narrow_and_far(family: str) -> None:
    ends = [(low, low + width) for low in LOWER for width in WIDTHS if low + width > low]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    base = getattr(dist, family)(torch.tensor(LOC).double(), torch.tensor(SCALE).double())
    found = log_interval(base, low, high)
    for got, a, b in zip(found.tolist(), low.tolist(), high.tolist(), strict=True):
        # Standardising rounds: of a narrow interval that is an error relative to its width.
        rounding = 4e-16 * (abs(a) + abs(b) + 1.0) / (b - a)
        assert abs(got - reference(family, a, b)) <= 1e-12 * (1.0 + abs(got)) + rounding, (a, b)


@families
def test_gradients_are_density_over_probability(family: str) -> None:
    low = torch.tensor([-9.0, -1.0, 0.2, 5.0], dtype=torch.float64, requires_grad=True)
    width = torch.tensor([0.01, 3.0, 0.3, 2.0], dtype=torch.float64)
    base = getattr(dist, family)(torch.tensor(LOC).double(), torch.tensor(SCALE).double())
    assert torch.autograd.gradcheck(lambda v: log_interval(base, v, v + width), low)
    assert torch.autograd.gradcheck(lambda v: log_interval(base, low.detach(), v), low + width)


def test_a_registered_family_takes_the_smaller_tails(gumbel: type) -> None:
    low = torch.tensor([-1.0, 0.5, 8.0], dtype=torch.float64)
    base = gumbel(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64))
    found = log_interval(base, low, low + 0.5)
    with mp.workdps(DIGITS):
        for got, a in zip(found.tolist(), low.tolist(), strict=True):
            below, above = tails("Gumbel", mpf(a)), tails("Gumbel", mpf(a) + mpf("0.5"))
            want = mp.log(mp.exp(below.log_q) - mp.exp(above.log_q))
            assert abs(got - want) < 1e-11
