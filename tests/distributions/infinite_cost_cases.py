"""Order events of costs that may be infinite, hard and fair, and their reference by mpmath."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import complement, standardized, tails
from order_event_cases import (
    hard_revenues,
    independent,
    random_parameters,
)
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent

#: Log-odds of an infinite cost: hardly ever, sometimes, nearly always.
LOGITS = [-40.0, -9.0, -2.0, 0.0, 1.5, 12.0, 40.0]
DRAWS = 6_000

families = pytest.mark.parametrize("family", ["Normal", "Logistic"])
shapes = pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (3, 2), (4, 1)], ids=str)
event_shapes = pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["K", "G,K"])
duplicates = pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))],
    ids=["deepcopy", "pickle"],
)


def hard_event(
    family: str, rows: int, shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[OrderEvent, dict[str, Tensor]]:
    """Revenues from -40 to 40 standard deviations against logits from -40 to 40."""
    full = (rows, *shape)
    u = hard_revenues(rows, 1 if len(shape) == 1 else shape[0], shape[-1]).reshape(full).to(dtype)
    loc, scale = random_parameters(u.shape, dtype)
    logits = torch.tensor(LOGITS, dtype=dtype)[torch.randint(len(LOGITS), full[:-1])]
    leaves = {"revenue": loc + scale * u, "loc": loc, "scale": scale, "logits": logits}
    leaves = {name: leaf.requires_grad_() for name, leaf in leaves.items()}
    cost = InfiniteCost(independent(family, loc, scale, len(shape)), logits)
    return OrderEvent(cost, leaves["revenue"]), leaves


def fair_event(
    shape: tuple[int, ...],
    family: str = "Normal",
    batch_shape: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> OrderEvent:
    """An event of random parameters, both of whose outcomes have a fair chance."""
    full = batch_shape + shape
    loc, scale = torch.randn(full, dtype=dtype), 0.5 + torch.rand(full, dtype=dtype)
    logits = 0.5 * torch.randn(full[:-1], dtype=dtype) - 0.5
    revenue = loc + scale * (0.4 * torch.randn(full, dtype=dtype) + 0.6)
    return OrderEvent(InfiniteCost(independent(family, loc, scale, len(shape)), logits), revenue)


class Row:
    """One alternative in mpmath: Pr(c < r) = (1 - p0) prod_k F_k, all of it in logarithms."""

    def __init__(self, family: str, u: list[mpf], logit: float) -> None:
        self.tails = [tails(family, v) for v in u]
        self.log_infinite = -mp.log1p(mp.exp(-mpf(logit)))
        self.log_hit = mp.fsum(t.log_p for t in self.tails) - mp.log1p(mp.exp(mpf(logit)))
        self.log_miss = complement(self.log_hit)


def reference(family: str, leaves: dict[str, Tensor]) -> list[list[Row]]:
    """The rows [B][G] of an event, from the very numbers in its tensors."""
    revenue, loc, scale, logits = (leaf.detach() for leaf in leaves.values())
    if logits.dim() == 1:
        revenue, loc, scale, logits = (t.unsqueeze(1) for t in (revenue, loc, scale, logits))
    events = zip(*(t.tolist() for t in (revenue, loc, scale, logits)), strict=True)
    return [
        [
            Row(family, [standardized(*one) for one in zip(r, m, s, strict=True)], logit)
            for r, m, s, logit in zip(*event, strict=True)
        ]
        for event in events
    ]


def log_probs(rows: list[Row]) -> tuple[mpf, mpf]:
    log_zero = mp.fsum(row.log_miss for row in rows)
    return log_zero, complement(log_zero)


def finite(draws: Tensor) -> Tensor:
    """Draws with their infinite costs far away from the others, at a place that has a rank."""
    return draws.nan_to_num(posinf=100.0)
