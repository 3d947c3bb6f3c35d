"""Strict means strict: no prediction falls when a revenue rises, in a million trained pairs.

Revenues come in chains r_0 <= r_1 <= ...; every second row is predicted in one call and the others
in a second, in another order and batch size, so that each pair is predicted in separate calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.encoders import Boosted, BoostedScore

PAIRS = 10**6
DRAWS = 16
CHAIN = 48  # pairs a chain
STEPS = ("random", "one coordinate", "one ulp", "saturated", "one ulp far out")
COMBINATIONS = [
    pytest.param(alternatives, response, dtype, id=f"{name}-{response}-{str(dtype)[6:]}")
    for name, alternatives in (("plain", {}), ("alternatives", {"alternatives": 2, "costs": 3}))
    for response in ("binary", "continuous", "quantile")
    for dtype in (torch.float32, torch.float64)
] + [
    pytest.param(options, response, dtype, id=f"{name}-{response}-{str(dtype)[6:]}")
    for name, options, response in (
        ("joint", {"prior": "standard", "objective": "joint"}, "binary"),
        ("mixture", {"prior": "mixture"}, "continuous"),
        ("categorical", {"prior": "categorical", "alternatives": 2}, "binary"),
        ("flow", {"prior": "flow", "z_dim": 2, "hidden": 4}, "binary"),
        ("infinite", {"p0": "conditional", "alternatives": 2}, "binary"),
        ("infinite", {"p0": "constant"}, "continuous"),
        ("sigmoid", {"revenue_map": "sigmoid"}, "binary"),
        ("splines", {"revenue_map": "piecewise_linear", "alternatives": 2}, "binary"),
        ("splines", {"revenue_map": "piecewise_linear"}, "continuous"),
    )
    for dtype in (torch.float32, torch.float64)
]
MEMBERS = {"prior": "members", "members": 4, "hidden": 8, "learning_rate": 0.002}
COMBINATIONS += [
    pytest.param(options, response, dtype, id=f"{name}-{response}-{str(dtype)[6:]}")
    for name, options, response in (
        ("members", MEMBERS, "binary"),
        ("members", MEMBERS, "continuous"),
        ("members", MEMBERS, "quantile"),
        ("boosted members", {**MEMBERS, "boosted": True}, "binary"),
    )
    for dtype in (torch.float32, torch.float64)
]
CHAINS = PAIRS // (len(COMBINATIONS) * len(STEPS) * CHAIN) + 1


class Trained(NamedTuple):
    model: GCM | Boosted
    low: Tensor  # [m], the range of the training rows
    high: Tensor
    levels: bool  # whether the revenue is a quantile level


def trained(options: dict[str, Any], response: str, dtype: torch.dtype) -> Trained:
    g = torch.Generator().manual_seed(1)
    m = 1 if response == "quantile" else 3
    x, noise = (torch.randn(300, k, generator=g, dtype=dtype) for k in (4, 1))
    r = 0.01 + 0.98 * torch.rand(300, m, generator=g, dtype=dtype)
    y = 50.0 + 10.0 * (x[:, 0] + 0.5 * noise[:, 0])
    if response != "quantile":  # revenues in units of their own
        y = y + 10.0 * (r.sum(1) - 1.5)
        r = torch.tensor([0.0, 1000.0, 0.0]) + r * torch.tensor([1.0, 40.0, 1e-3])
    y = (y > 50.0).to(dtype) if response == "binary" else y
    options = dict(options)
    training = {
        name: options.pop(name, default)
        for name, default in (("objective", None), ("learning_rate", 0.02))
    }
    rows = columns = x, r.to(dtype)
    score = None
    if options.pop("boosted", False):
        score = BoostedScore("revenue", "sklearn", max_iter=20)
        columns = score.columns(*rows, score.fit(*rows, y))
    sizes = (part.shape[1] for part in columns)
    model = GCM(*sizes, response=response, num_samples=DRAWS, **options).to(dtype)
    training |= {"epochs": 20, "batch_size": 64, "num_particles": 8, "progress": False}
    fit(model, *columns, y, **training)
    levels = not model.response.standardizes_revenue
    limits = rows[1].amin(0), rows[1].amax(0)
    return Trained(Boosted(model, score) if score else model, *limits, levels)


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


def in_calls_of(size: int, model: GCM | Boosted, x: Tensor, r: Tensor) -> Tensor:
    """Predictions of rows in a random order, `size` rows a call."""
    order = torch.randperm(len(x))
    parts = [model.predict(x[part], r[part]) for part in order.split(size)]
    predictions = torch.empty(len(x), dtype=parts[0].dtype)
    predictions[order] = torch.cat(parts)
    return predictions


@pytest.mark.long(keep=4)
@pytest.mark.parametrize(("options", "response", "dtype"), COMBINATIONS)
def test_no_prediction_falls_when_a_revenue_rises(
    options: dict[str, Any], response: str, dtype: torch.dtype
) -> None:
    data = trained(options, response, dtype)
    model, pairs, equal = data.model, 0, {}
    for kind in STEPS:
        r = chains(kind, data)
        assert (r[:, 1:] >= r[:, :-1]).all()
        x = torch.randn(CHAINS, 1, 4, dtype=dtype).expand(-1, CHAIN + 1, -1)
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
