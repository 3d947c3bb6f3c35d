"""SwitchMonotone against its formula."""

from __future__ import annotations

import numpy as np
import torch
from baseline_checks import Array, arrays, assert_score_is, rows, with_normal_weights

from pyro_gcm.baselines.switch import SwitchMonotone


def test_score_is_the_published_formula() -> None:
    model = with_normal_weights(SwitchMonotone, 0.5, hidden=4)
    p = arrays(model)

    def silu(v: Array) -> Array:
        return v / (1 + np.exp(-v))

    def selu(v: Array) -> Array:
        alpha, scale = 1.6732632423543772, 1.0507009873554805
        return scale * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))

    def layer(h: Array, name: str, act) -> Array:
        w, b = p[f"{name}.weight"], p[f"{name}.bias"]
        return act(h) @ np.maximum(w, 0).T + act(-h) @ np.minimum(w, 0).T + b

    def reference(x: Array, r: Array) -> Array:
        free = silu(x @ p["free.0.weight"].T + p["free.0.bias"])
        free = silu(free @ p["free.2.weight"].T + p["free.2.bias"])
        h = layer(np.hstack([free, r]), "first", lambda v: v)
        for i in range(3):
            h = layer(h, f"switched.{i}", selu)
        return h[:, 0]

    assert_score_is(model, reference)


def test_score_is_not_monotone_in_covariates() -> None:
    model = with_normal_weights(SwitchMonotone, 1.0, hidden=4)
    x, r, _ = rows(1000)
    with torch.no_grad():
        change = model(x + 0.5, r) - model(x, r)
    assert change.min() < 0 < change.max()
