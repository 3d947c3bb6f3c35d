"""Models of every response along an axis, small, and rows for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models.axis_responses import WholeDistribution
from pyro_gcm.models.ordinal import Ordinal
from pyro_gcm.models.survival import Survival

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "survival": (Survival, {}),
    "survival, members": (Survival, {"prior": "members", "members": 3}),
    "survival, cured": (Survival, {"alternatives": 2, "costs": 2, "p0": "conditional"}),
    "survival, guided": (Survival, {"guide": "amortised", "cost_family": "laplace"}),
    "ordinal": (Ordinal, {"cost_family": "logistic"}),
    "ordinal, members": (Ordinal, {"prior": "members", "members": 3}),
    "ordinal, alternatives": (Ordinal, {"alternatives": 2, "costs": 2, "p0": "constant"}),
    "distribution": (WholeDistribution, {"prior": "mixture"}),
    "distribution, members": (WholeDistribution, {"prior": "members", "members": 3}),
    "distribution, alternatives": (WholeDistribution, {"alternatives": 2, "costs": 3}),
}


def kind_of(case: str) -> str:
    """The response of a case."""
    return case.partition(",")[0]


def model_of(case: str, **options: Any) -> GCM:
    """An untrained model in float64 that has learned its units, its z far from its start."""
    response, own = CASES[case]
    made = response(levels=4) if response is Ordinal else response(knots=3)
    model = GCM(3, 2, response=made, hidden=8, z_dim=2, seed=5, **own, **options).double()
    with torch.no_grad():
        for parameter in model.cost_net.parameters():
            parameter.mul_(1.5)
    model.learn_units(*rows(case, 400))
    return model


def rows(case: str, count: int, seed: int = 0) -> tuple[Tensor, Tensor, Any]:
    """x [n, 3], r [n, 2] and what the response of a case takes as y."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=g, dtype=torch.float64)
    r = torch.rand(count, 2, generator=g, dtype=torch.float64)
    noise = 0.5 * torch.randn(count, generator=g, dtype=torch.float64)
    score = 0.7 * x[:, 0] + r.sum(1) + noise
    if case.startswith("ordinal"):
        return x, r, torch.bucketize(score, torch.tensor([0.5, 1.0, 1.7]).double()).double()
    if case.startswith("distribution"):
        return x, r, 300.0 + 20.0 * score.exp()
    return x, r, times(10.0 * (-score).exp(), g)


def times(time: Tensor, g: torch.Generator) -> SurvivalTimes:
    """Every kind of censoring in turn."""
    kind = torch.arange(len(time)) % 4
    before = time * torch.rand(len(time), generator=g, dtype=torch.float64)
    after = time + 5.0 * torch.rand(len(time), generator=g, dtype=torch.float64)
    lower = torch.where(kind == 0, time, torch.where(kind == 1, 0.0, before))
    upper = torch.where(kind == 0, time, torch.where(kind == 2, torch.inf, after))
    return SurvivalTimes(lower, upper)
