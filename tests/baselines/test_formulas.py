"""MLP, PosNN, SMNN and SwitchMonotone against their published formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from baseline_checks import (
    Array,
    arrays,
    assert_score_is,
    made,
    positive,
    two_stream,
    with_normal_weights,
)

from pyro_gcm.baselines import MLP, SMNN, PosNN, SwitchMonotone


def test_mlp_reads_all_covariates_and_revenues() -> None:
    model = made(MLP, hidden=5)
    w = arrays(model)
    first = np.concatenate([w["x_layer.weight"], w["r_layer.weight"]], 1)

    def reference(x: Array, r: Array) -> Array:
        h = np.tanh(np.concatenate([x, r], 1) @ first.T + w["x_layer.bias"])
        h = np.tanh(h @ w["hidden.weight"].T + w["hidden.bias"])
        return np.asarray((h @ w["output.weight"].T + w["output.bias"])[:, 0])

    assert_score_is(model, reference)


def test_paper_form_of_pos_nn_is_the_two_stream_body() -> None:
    model = made(PosNN, hidden=5)
    assert_score_is(model, lambda x, r: two_stream(model.network, x, r)[:, 0])


def test_canonical_form_of_pos_nn_is_one_layer_of_sigmoids() -> None:
    model = made(PosNN, hidden=5, form="canonical")
    w = arrays(model.network)

    def reference(x: Array, r: Array) -> Array:
        u = x @ w["x_layer.weight"].T + w["x_layer.bias"] + r @ positive(w["r_layer.weight"]).T
        out = (1.0 / (1.0 + np.exp(-u))) @ positive(w["output.weight"]).T + w["output.bias"]
        return np.asarray(out[:, 0])

    assert_score_is(model, reference)


def test_smnn_is_the_published_formula() -> None:
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


def test_smnn_weights_start_as_published() -> None:
    torch.manual_seed(0)
    model = SMNN(30, 20, hidden=40)
    for layer in [*model.exp_units, *model.exp_from_confluence]:
        assert -20 <= layer.weight.min() < -19 < 1 < layer.weight.max() <= 2
    assert -16 <= model.output_from_x.weight.min() < -12 < -8 < model.output_from_x.weight.max()
    assert model.output_from_x.weight.max() <= -4
    assert 0.3 < torch.cat([layer.bias for layer in model.relu_units]).abs().max() <= 1.0
    limit = (6 / (30 + 40)) ** 0.5
    assert 0.95 * limit < model.relu_units[0].weight.abs().max() <= limit


def test_switch_monotone_is_the_published_formula() -> None:
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


def test_score_of_pos_nn_computed_by_hand() -> None:
    model = PosNN(1, 1, hidden=1, form="canonical")
    parts = model.network
    raw = np.log(np.expm1(10.0 * 2.0)) / 10.0  # P(raw) = 2
    for parameter, value in (
        (parts.x_layer.weight, -1.0),
        (parts.x_layer.bias, 0.5),
        (parts.r_layer.weight, raw),
        (parts.output.weight, raw),
        (parts.output.bias, -1.0),
    ):
        parameter.data.fill_(value)
    # 2 sigmoid(-1.5 + 0.5 + 2 * 0.5) - 1 = 0, whose sigmoid is 1/2.
    assert model.predict([[1.5]], [[0.5]]).item() == pytest.approx(0.5, abs=1e-6)
