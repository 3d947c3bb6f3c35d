"""LipschitzMonotone against its formula and its bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_checks import Array, arrays, assert_score_is, decreases, rows, with_normal_weights

from pyro_gcm.baselines.lipschitz import LipschitzMonotone


@pytest.mark.parametrize("scale", [0.05, 2.0], ids=["weights below the norm", "above"])
def test_score_is_the_published_formula(scale: float) -> None:
    bound = 1.7
    model = with_normal_weights(LipschitzMonotone, scale, hidden=6, bound=bound)
    p = arrays(model)
    share = bound ** (1 / 3)

    def sort_pairs(h: Array) -> Array:
        a, b = h[:, 0::2], h[:, 1::2]
        return np.stack([np.minimum(a, b), np.maximum(a, b)], 2).reshape(h.shape)

    def reference(x: Array, r: Array) -> Array:
        h = np.hstack([x, r]) @ np.clip(p["first.weight"], -share, share).T + p["first.bias"]
        for name in ("second", "output"):
            weights = p[f"{name}.weight"].copy()
            for row in weights:
                if np.abs(row).sum() > share:
                    row *= share / np.abs(row).sum()
            h = sort_pairs(h) @ weights.T + p[f"{name}.bias"]
        return h[:, 0] + bound * r.sum(1)

    assert_score_is(model, reference)


@pytest.mark.parametrize("bound", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("scale", [0.2, 1.0, 10.0])
def test_slopes_stay_below_the_bound(bound: float, scale: float) -> None:
    model = with_normal_weights(LipschitzMonotone, scale, hidden=6, bound=bound)
    (x, r, _), (dx, dr, _) = rows(20_000), rows(20_000, seed=1)
    generator = torch.Generator().manual_seed(2)
    sizes = 10.0 ** (4 * torch.rand(20_000, 1, generator=generator, dtype=torch.float64) - 3)
    with torch.no_grad():
        here = model.lipschitz_part(model.encode(x), r)
        there = model.lipschitz_part(model.encode(x + sizes * dx), r + sizes * dr)
    distance = sizes[:, 0] * torch.cat([dx, dr], 1).abs().sum(1)
    assert ((here - there).abs() <= bound * distance + 1e-12).all()


def test_slopes_reach_the_bound_and_the_score_does_not_decrease_at_its_most_negative_ones() -> None:
    model = with_normal_weights(LipschitzMonotone, 1.0, hidden=6, bound=1.7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(100.0)
    r = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    model.score(torch.zeros(1, 3, dtype=torch.float64), r).backward()
    assert torch.allclose(r.grad, torch.full_like(r, 2 * 1.7), rtol=0, atol=1e-12)
    with torch.no_grad():
        model.first.weight.neg_()
    assert decreases(model, 70_000) == 0
