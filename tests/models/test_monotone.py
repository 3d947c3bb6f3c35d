"""Strict means strict: no prediction falls when a revenue rises, in a million trained pairs.

Revenues come in chains r_0 <= r_1 <= ...; every second row is predicted in one call and the others
in a second, in another order and batch size, so that each pair is predicted in separate calls.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM

PAIRS = 10**6
CHAIN = 48  # pairs a chain
STEPS = ("random", "one coordinate", "one ulp", "saturated", "one ulp far out")
KINDS = [
    name for name, kind in zoo.KINDS.items() if kind.family is GCM and name not in zoo.AXIS_KINDS
]
DTYPES = (torch.float32, torch.float64)
COMBINATIONS = [
    pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}")
    for name in (*KINDS, "members")
    for dtype in DTYPES
]
CHAINS = PAIRS // (len(COMBINATIONS) * len(STEPS) * CHAIN) + 1


class Trained(NamedTuple):
    model: GCM
    low: Tensor  # [m], the range of the training rows
    high: Tensor
    levels: bool  # whether the revenue is a quantile level


def trained(name: str, dtype: torch.dtype) -> Trained:
    """After as many steps as make it rise."""
    training = {"epochs": 20, "num_particles": 8, "learning_rate": 0.02}
    complete = zoo.rows(zoo.KINDS[name].response).r.to(dtype)
    limits = complete.amin(0), complete.amax(0)
    model = zoo.trained(name, dtype, **training)
    return Trained(model, *limits, model.response.r_dist() is not None)


def chains(kind: str, data: Trained) -> Tensor:
    """Revenues [chains, CHAIN + 1, m] that rise along dimension 1."""
    low, high, m, levels = data.low, data.high, data.model.r_dim, data.levels
    dtype = low.dtype
    span = high - low
    start = low + span * torch.rand(CHAINS, 1, m, dtype=dtype)
    if kind == "random":
        inside = low + span * torch.rand(CHAINS, CHAIN + 1, m, dtype=dtype)
        return inside.sort(1).values
    coordinate = torch.nn.functional.one_hot(torch.randint(m, (CHAINS, CHAIN)), m).to(dtype)
    if kind == "one coordinate":
        steps = coordinate * torch.rand(CHAINS, CHAIN, 1, dtype=dtype) * (high - start) / CHAIN
        return torch.cat([start, start + steps.cumsum(1)], 1)
    if kind == "saturated":  # 10^3 to 10^6 spans outside, for levels the ends of (0, 1)
        shape = (CHAINS, CHAIN + 1, m)
        if levels:
            tail = 10.0 ** -(2.0 + 28.0 * torch.rand(shape, dtype=dtype))
            tiny = torch.finfo(dtype).eps
            far = torch.where(torch.rand(shape) < 0.5, tail, 1.0 - tail.clamp(min=tiny))
        else:
            size = 10.0 ** (3.0 + 3.0 * torch.rand(shape, dtype=dtype))
            far = low + span * size * (2.0 * torch.randint(2, shape) - 1.0)
            far = torch.where(torch.rand(shape) < 0.3, low + span * torch.rand(shape), far)
        return far.sort(1).values
    if kind == "one ulp far out":
        exponent = 6.0 * torch.rand(CHAINS, 1, m, dtype=dtype)
        if levels:
            start = 0.5 * 10.0**-exponent
        else:
            start = low + span * 10.0**exponent * (2.0 * torch.randint(2, (CHAINS, 1, m)) - 1.0)
    rows = [start[:, 0]]
    for k in range(CHAIN):
        up = torch.nextafter(rows[-1], torch.full_like(rows[-1], torch.inf))
        rows.append(torch.where(coordinate[:, k] > 0, up, rows[-1]))
    return torch.stack(rows, 1)


def in_calls_of(size: int, model: GCM, x: Tensor, r: Tensor) -> Tensor:
    """Predictions of rows in a random order, `size` rows a call."""
    order = torch.randperm(len(x))
    parts = [model.predict(x[part], r[part]) for part in order.split(size)]
    predictions = torch.empty(len(x), dtype=parts[0].dtype)
    predictions[order] = torch.cat(parts)
    return predictions


@pytest.mark.long(
    keep=(
        "plain-float32",
        "alternatives-float64",
        "splines and logistic costs-float32",
        "quantile-float64",
        "joint-float32",
        "members-float64",
    )
)
@pytest.mark.parametrize(("name", "dtype"), COMBINATIONS)
def test_no_prediction_falls_when_a_revenue_rises(name: str, dtype: torch.dtype) -> None:
    data = trained(name, dtype)
    model, pairs, equal = data.model, 0, {}
    for kind in STEPS:
        r = chains(kind, data)
        assert (r[:, 1:] >= r[:, :-1]).all()
        x = 40.0 + 3.0 * torch.randn(CHAINS, 1, 3, dtype=dtype).expand(-1, CHAIN + 1, -1)
        p = torch.empty(CHAINS, CHAIN + 1, dtype=dtype)
        for first, size in ((0, 4001), (1, 997)):
            rows = (t[:, first::2].flatten(0, 1) for t in (x, r))
            p[:, first::2] = in_calls_of(size, model, *rows).reshape(CHAINS, -1)
        assert p.isfinite().all()
        fallen = int((p[:, 1:] < p[:, :-1]).sum())
        assert fallen == 0, f"{fallen} predictions fell in {CHAINS * CHAIN} steps of kind {kind}"
        equal[kind] = (p[:, 1:] == p[:, :-1]).double().mean().item()
        pairs += CHAINS * CHAIN
    assert pairs * len(COMBINATIONS) >= PAIRS
    assert equal["random"] < 0.05  # it does rise
