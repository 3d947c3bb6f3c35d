"""SwitchMonotone against its formula, and its promise."""

import numpy as np
import pytest
import torch
from baseline_checks import (
    assert_gradients_everywhere,
    assert_monotone,
    assert_surface_is_predict,
    columns,
    with_random_weights,
)

from pyro_gcm.baselines.switch import SwitchMonotone


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def made(generator, scale=1.0):
    model = SwitchMonotone(3, 2, hidden=4)
    return with_random_weights(model, scale, generator)


def test_score_is_the_published_formula(generator):
    model = made(generator, 0.5)
    x, r = columns(generator)
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def silu(v):
        return v / (1 + np.exp(-v))

    def selu(v):
        alpha, scale = 1.6732632423543772, 1.0507009873554805
        return scale * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))

    def layer(h, name, act):
        w, b = p[f"{name}.weight"], p[f"{name}.bias"]
        return act(h) @ np.maximum(w, 0).T + act(-h) @ np.minimum(w, 0).T + b

    free = silu(x.numpy() @ p["free.0.weight"].T + p["free.0.bias"])
    free = silu(free @ p["free.2.weight"].T + p["free.2.bias"])
    h = layer(np.hstack([free, r.numpy()]), "first", lambda v: v)
    for i in range(3):
        h = layer(h, f"switched.{i}", selu)
    np.testing.assert_allclose(model.score(x, r).detach(), h[:, 0], rtol=0, atol=1e-12)


def test_score_never_falls_with_a_revenue():
    assert_monotone(SwitchMonotone, pairs=360_000)


def test_covariates_are_free(generator):
    model = made(generator)
    x, r = columns(generator, 1000)
    with torch.no_grad():
        change = model.score(x + 0.5, r) - model.score(x, r)
    assert change.min() < 0 < change.max()


def test_surface_is_predict_at_every_pair():
    assert_surface_is_predict(SwitchMonotone)


def test_gradients_reach_every_parameter():
    assert_gradients_everywhere(SwitchMonotone)


def test_hidden_is_checked():
    with pytest.raises(ValueError, match="hidden must be an integer of at least 1, got 0"):
        SwitchMonotone(3, 2, hidden=0)
