"""CMNN against the formulas of its three forms."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from baseline_checks import Array, arrays, assert_score_is, made, two_stream

from pyro_gcm.baselines.constrained import CMNN, elu_split, softplus_thirds


def softplus(u: Array) -> Array:
    return np.asarray(np.logaddexp(u, 0.0))


def elu(u: Array) -> Array:
    return np.where(u > 0.0, u, np.expm1(np.minimum(u, 0.0)))


def thirds(u: Array) -> Array:
    """The activation of the paper's form on 7 units: 2, 2 and 3."""
    a, b, c = u[..., :2], u[..., 2:4], u[..., 4:]
    relu = partial(np.maximum, 0.0)
    joined = -softplus(-(relu(c) - 1.0)) + softplus(1.0 - relu(-c))
    return np.concatenate([softplus(a), -softplus(-b), joined], -1)


def sevens(u: Array) -> Array:
    """The activation of the method's authors: 16 units are 7, 7, 2 and 4 units are 2, 2, 0."""
    part = {16: 7, 4: 2}[u.shape[-1]]
    a, b, c = u[..., :part], u[..., part : 2 * part], u[..., 2 * part :]
    joined = np.where(c < 0.0, elu(c + 1.0) - 1.0, -elu(1.0 - c) + 1.0)
    return np.concatenate([elu(a), -elu(-b), joined], -1)


def test_paper_form_is_the_two_stream_body_with_three_activations() -> None:
    model = made(CMNN, hidden=7)
    assert_score_is(model, lambda x, r: two_stream(model.network, x, r, thirds)[:, 0])


def test_type_1_reads_all_inputs_in_its_first_layer() -> None:
    model = made(CMNN, form="type1")
    w = arrays(model.network)

    def reference(x: Array, r: Array) -> Array:
        u = x @ w["x_layer.weight"].T + w["x_layer.bias"] + r @ np.abs(w["r_layer.weight"]).T
        u = sevens(u) @ np.abs(w["hidden.weight"]).T + w["hidden.bias"]
        return np.asarray((sevens(u) @ np.abs(w["output.weight"]).T + w["output.bias"])[:, 0])

    assert_score_is(model, reference)


def test_type_2_gives_every_input_a_layer_of_its_own() -> None:
    model = made(CMNN, form="type2")
    model.network.x_bias.data.normal_()
    model.network.r_bias.data.normal_()
    w = arrays(model.network)

    def reference(x: Array, r: Array) -> Array:
        free = [elu(x[:, [j]] * w["x_weight"][j] + w["x_bias"][j]) for j in range(3)]
        rising = [sevens(r[:, [j]] * np.abs(w["r_weight"][j]) + w["r_bias"][j]) for j in range(2)]
        u = np.concatenate(free, 1) @ w["x_layer.weight"].T + w["x_layer.bias"]
        u = u + np.concatenate(rising, 1) @ np.abs(w["r_layer.weight"]).T
        return np.asarray((sevens(u) @ np.abs(w["output.weight"]).T + w["output.bias"])[:, 0])

    assert_score_is(model, reference)


@pytest.mark.parametrize("activation", [softplus_thirds, elu_split])
@pytest.mark.parametrize("at", [-20.0, -1.0, 0.0, 1.0, 20.0], ids="at {:g}".format)
def test_activations_are_increasing_and_continuous(activation: object, at: float) -> None:
    near = at + torch.linspace(-1e-6, 1e-6, 2001, dtype=torch.float64)
    rise = activation(near[:, None].expand(-1, 16)).diff(dim=0)
    assert rise.min() >= -1e-14
    assert rise.max() < 2e-9  # the slope is 1 at most, up to rounding
