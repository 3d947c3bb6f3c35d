"""Densities and differences of an order event along an axis, against mpmath."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import mpmath_reference
import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import event_gradients, event_log_probs, standardized, tails
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.event_curve import EventCurve

FAMILIES = ("Normal", "Logistic", "Laplace")
SHAPES = [(1,), (3,), (2, 1), (2, 3)]
#: Where the event is almost impossible, likely, and almost certain.
CENTRES = (-25.0, -4.0, 0.0, 3.0, 20.0)
CASES = list(itertools.product(FAMILIES, SHAPES, (False, True)))


@pytest.fixture(autouse=True)
def many_digits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Enough for the difference of two probabilities that are 1 but for exp(-400)."""
    monkeypatch.setattr(mpmath_reference, "DIGITS", 400)
    tails.cache_clear()
    yield
    tails.cache_clear()


def curve(family: str, shape: tuple[int, ...], infinite: bool) -> tuple[EventCurve, Any, Any]:
    """A curve, log Pr(y = 0) and log Pr(y = 1) at a shift, and the log of its derivative there."""
    g = torch.Generator().manual_seed(sum(shape))
    loc, raw, revenue = torch.randn(3, *shape, generator=g, dtype=torch.float64)
    scale = (0.3 * raw).exp()
    cost: Any = getattr(dist, family)(loc, scale).to_event(len(shape))
    odds = None
    if infinite:
        logits = torch.linspace(-2.0, 0.5, 3, dtype=torch.float64)[: shape[0] if shape[1:] else 1]
        cost, odds = InfiniteCost(cost, logits if shape[1:] else logits[0]), logits.tolist()
    rows = [part.reshape(-1, shape[-1]) for part in (revenue, loc, scale)]

    def standard(shift: Tensor) -> list[list[mpf]]:
        moved = (rows[0] + shift.reshape(-1, shape[-1])).tolist()
        return [
            [standardized(*v) for v in zip(*row, strict=True)]
            for row in zip(moved, rows[1].tolist(), rows[2].tolist(), strict=True)
        ]

    def reference(shift: Tensor) -> tuple[mpf, mpf]:
        return event_log_probs(family, standard(shift), odds)

    def density(shift: Tensor, slope: Tensor) -> mpf:
        by_u, _ = event_gradients(family, standard(shift), odds, 0)
        with mp.workdps(mpmath_reference.DIGITS):
            speeds = [
                mpf(a) / mpf(b)
                for a, b in zip(slope.flatten().tolist(), rows[2].flatten().tolist(), strict=True)
            ]
            rate = mp.fsum(a * b for a, b in zip(speeds, itertools.chain(*by_u), strict=True))
            return mp.log(-rate) + reference(shift)[0]

    return EventCurve(OrderEvent(cost, revenue)), reference, density


@pytest.mark.long(keep=6)
@pytest.mark.parametrize(("family", "shape", "infinite"), CASES, ids=str)
def test_the_density_is_the_derivative_and_differences_do_not_cancel(
    family: str, shape: tuple[int, ...], infinite: bool
) -> None:
    made, reference, density = curve(family, shape, infinite)
    g = torch.Generator().manual_seed(1)

    def uniform() -> Tensor:
        return torch.rand(shape, generator=g, dtype=torch.float64)

    for centre in CENTRES:
        shift, slope = centre + uniform(), 0.1 + uniform()
        got = float(made.log_density_terms(shift, slope).logsumexp((-2, -1)))
        want = density(shift, slope)
        assert abs(got - want) <= 1e-12 * (1.0 + abs(want)), centre
    for centre, width in itertools.product(CENTRES, (1e-6, 0.1, 5.0)):
        low = centre + uniform()
        high = low + width * (0.5 + uniform())
        with mp.workdps(mpmath_reference.DIGITS):
            (zero_a, one_a), (zero_b, one_b) = reference(low), reference(high)
            ends = (one_b, one_a) if one_a < zero_a else (zero_a, zero_b)
            want = mp.log(mp.exp(ends[0]) - mp.exp(ends[1]))
        got = float(made.log_between_terms(low, high).logsumexp((-2, -1)))
        # The ends themselves are rounded, which a narrow interval feels.
        rounding = 1e-15 * (abs(centre) + 5.0) / width
        assert abs(got - want) <= 1e-11 * (1.0 + abs(want)) + rounding, (centre, width)
