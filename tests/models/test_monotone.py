"""Strict means strict, far outside of the rows: no prediction falls when a revenue rises.

The kit asks it of every part by small and large steps near the rows, and `reproduce falls` of ten
million pairs.
"""

from __future__ import annotations

import pytest
import torch
import zoo
from torch import Tensor

CHAINS, STEPS = 40, 48
KINDS = (
    *("plain", "alternatives", "splines and logistic costs", "sigmoid and laplace costs"),
    *("quantile", "joint", "members", "continuous"),
)


def saturated(low: Tensor, high: Tensor, levels: bool) -> Tensor:
    """Chains [CHAINS, STEPS + 1, m] from 10^3 to 10^6 spans outside, or to the ends of (0, 1)."""
    shape = (CHAINS, STEPS + 1, len(low))
    sign = 2.0 * torch.randint(2, shape) - 1.0
    if levels:
        tail = 10.0 ** -(2.0 + 28.0 * torch.rand(shape, dtype=low.dtype))
        far = torch.where(sign < 0, tail, 1.0 - tail.clamp(min=torch.finfo(low.dtype).eps))
    else:
        size = 10.0 ** (3.0 + 3.0 * torch.rand(shape, dtype=low.dtype))
        far = low + (high - low) * torch.where(torch.rand(shape) < 0.3, sign.abs() / 2, size * sign)
    return far.sort(1).values


def by_ulps(start: Tensor) -> Tensor:
    """Chains from a start [CHAINS, m], whose columns rise by one ulp in turn."""
    rows = [start]
    for step in range(STEPS):
        up = torch.nextafter(rows[-1], torch.full_like(start, torch.inf))
        rows.append(
            torch.where(torch.arange(start.shape[1]) == step % start.shape[1], up, rows[-1])
        )
    return torch.stack(rows, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_no_prediction_falls_when_a_revenue_rises(dtype: torch.dtype) -> None:
    for kind in KINDS:
        model = zoo.trained(kind, dtype, epochs=20, num_particles=8, learning_rate=0.02)
        rows = zoo.rows_of(kind, dtype=dtype).r
        far = saturated(rows.amin(0), rows.amax(0), kind == "quantile")
        for r in (far, by_ulps(far[:, STEPS // 3]), by_ulps(rows[:CHAINS])):
            x = zoo.rows_of(kind, CHAINS, dtype=dtype).x[:, None].expand(-1, STEPS + 1, -1)
            p = torch.empty(CHAINS, STEPS + 1, dtype=dtype)
            for first, size in ((0, 401), (1, 97)):  # neighbours in separate calls
                pairs = (t[:, first::2].flatten(0, 1) for t in (x, r))
                calls = zip(*(t.split(size) for t in pairs), strict=True)
                found = torch.cat([model.predict(*call) for call in calls])
                p[:, first::2] = found.reshape(CHAINS, -1).to(dtype)
            assert p.isfinite().all()
            assert (p[:, 1:] >= p[:, :-1]).all(), kind
            assert r is not far or (p[:, -1] > p[:, 0]).any()
