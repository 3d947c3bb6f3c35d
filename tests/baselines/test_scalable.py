"""SMNN against its formula and its published initialisation."""

from __future__ import annotations

import numpy as np
import torch
from baseline_checks import Array, arrays, assert_score_is, with_normal_weights

from pyro_gcm.baselines.scalable import SMNN


def test_score_is_the_published_formula() -> None:
    # These weights use all three pieces of R.
    model = with_normal_weights(SMNN, 0.7, hidden=4, layers=3)
    p = arrays(model)

    def bounded(v: Array) -> Array:
        return np.where(v < 0, 0.01 * v, np.where(v > 1, 0.99 + 0.01 * v, v))

    def reference(x: Array, r: Array) -> Array:
        e, c, q = r, x[:, :0], x
        for i in range(3):
            weights = p[f"exp_units.{i}.weight"]
            if i:
                weights = np.hstack([weights, p[f"exp_from_confluence.{i - 1}.weight"]])
            e = bounded(np.hstack([e, c]) @ np.exp(weights).T + p[f"exp_units.{i}.bias"])
            c = bounded(q @ p[f"confluence_units.{i}.weight"].T + p[f"confluence_units.{i}.bias"])
            q = np.maximum(q @ p[f"relu_units.{i}.weight"].T + p[f"relu_units.{i}.bias"], 0)
        weights = np.hstack([p["output.weight"], p["output_from_x.weight"]])
        out = np.hstack([e, c, q]) @ np.exp(weights).T + p["output_from_x.bias"]
        return np.asarray(out[:, 0])

    assert_score_is(model, reference)


def test_weights_start_as_published() -> None:
    torch.manual_seed(0)
    model = SMNN(30, 20, hidden=40)
    for layer in [*model.exp_units, *model.exp_from_confluence]:
        assert -20 <= layer.weight.min() < -19 < 1 < layer.weight.max() <= 2
    assert -16 <= model.output_from_x.weight.min() < -12 < -8 < model.output_from_x.weight.max()
    assert model.output_from_x.weight.max() <= -4
    assert 0.3 < torch.cat([layer.bias for layer in model.relu_units]).abs().max() <= 1.0
    limit = (6 / (30 + 40)) ** 0.5
    assert 0.95 * limit < model.relu_units[0].weight.abs().max() <= limit
