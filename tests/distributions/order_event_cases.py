"""Order events to try, and how their errors are measured."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from mpmath import mpf
from mpmath_reference import event_log_probs, standardized, worst_error
from torch import Tensor

from pyro_gcm.distributions import OrderEvent

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
GRADIENT_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
# Below this size the error is absolute.
FLOOR = {torch.float32: 1e-30, torch.float64: 1e-290}

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
outcomes = pytest.mark.parametrize("outcome", [0.0, 1.0], ids=["y=0", "y=1"])
families = pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace"])
SIZES = [(1, 1), (1, 2), (1, 16), (2, 2), (4, 1), (3, 5), (4, 16)]
shapes = pytest.mark.parametrize(
    ("alternatives", "costs"), SIZES, ids=[f"G={g},K={k}" for g, k in SIZES]
)


def independent(family: str, loc: Tensor, scale: Tensor, event_dim: int = 1):
    return getattr(dist, family)(loc, scale).to_event(event_dim)


def order_event(family: str, loc: Tensor, scale: Tensor, revenue: Tensor) -> OrderEvent:
    """The event for [B, G, K]; one alternative is given as the model gives it, without G."""
    if loc.shape[-2] == 1:
        loc, scale, revenue = (t.squeeze(-2) for t in (loc, scale, revenue))
        return OrderEvent(independent(family, loc, scale), revenue)
    return OrderEvent(independent(family, loc, scale, 2), revenue)


def hard_revenues(rows: int, alternatives: int, costs: int) -> Tensor:
    """Standardised revenues [rows, G, K] from -40 to 40 in all mixtures of signs and sizes.

    They come from 161 float32 numbers, so that the reference is computed once for each.
    """
    pool = torch.cat([torch.linspace(-40.0, 40.0, 81), 3.0 * torch.randn(80)])
    shape = (rows, alternatives, costs)
    mixed = torch.randint(len(pool), shape)
    kind = torch.arange(rows) % 5
    ends = torch.where(torch.rand(shape) < 0.5, pool[mixed].abs().clamp(max=40.0), pool[mixed])
    return torch.stack(
        [
            pool[mixed],
            ends,  # mostly certain
            -ends,  # mostly impossible
            pool[81 + mixed % 80],  # around the centre
            pool[mixed[:, :1, :1]].expand(shape),  # all equal
        ]
    )[kind, torch.arange(rows)]


def exact_inputs(loc: Tensor, scale: Tensor, revenue: Tensor) -> list[list[list[mpf]]]:
    """Standardised revenues [B][G][K] from the very numbers in the tensors."""
    return [
        [
            [standardized(*triple) for triple in zip(*row, strict=True)]
            for row in zip(*event, strict=True)
        ]
        for event in zip(revenue.tolist(), loc.tolist(), scale.tolist(), strict=True)
    ]


def random_parameters(shape: torch.Size, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return 5.0 * torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype).exp()


def largest_errors(event: OrderEvent, family: str, u: list, outcome: float) -> float:
    got = event.log_prob(torch.tensor(outcome, dtype=event.dtype))
    assert got.dtype == event.dtype
    exact = [event_log_probs(family, rows)[int(outcome)] for rows in u]
    return worst_error(got.tolist(), exact, FLOOR[event.dtype])
