"""SMNN against its formula, and its promise."""

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

from pyro_gcm.baselines.scalable import SMNN


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def made(generator, scale=1.0, layers=2):
    """A float64 network with weights of this scale, which use all of R's three pieces."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SMNN(3, 2, hidden=4, layers=layers)
    return with_random_weights(model, scale, generator)


def test_score_is_the_published_formula(generator):
    model = made(generator, 0.7, layers=3)
    x, r = columns(generator)
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def bounded(v):
        return np.where(v < 0, 0.01 * v, np.where(v > 1, 0.99 + 0.01 * v, v))

    e, q = r.numpy(), x.numpy()
    for i in range(3):
        below, weights = e, p[f"exp_units.{i}.weight"]
        if i:
            below = np.hstack([e, c])  # noqa: F821 (made by the layer below)
            weights = np.hstack([weights, p[f"exp_from_confluence.{i - 1}.weight"]])
        e = bounded(below @ np.exp(weights).T + p[f"exp_units.{i}.bias"])
        c = bounded(q @ p[f"confluence_units.{i}.weight"].T + p[f"confluence_units.{i}.bias"])
        q = np.maximum(q @ p[f"relu_units.{i}.weight"].T + p[f"relu_units.{i}.bias"], 0)
    weights = np.hstack([p["output.weight"], p["output_from_x.weight"]])
    expected = np.hstack([e, c, q]) @ np.exp(weights).T + p["output_from_x.bias"]
    np.testing.assert_allclose(model.score(x, r).detach(), expected[:, 0], rtol=0, atol=1e-12)


def test_weights_start_as_published():
    torch.manual_seed(0)
    model = SMNN(30, 20, hidden=40)
    for layer in [*model.exp_units, *model.exp_from_confluence]:
        assert -20 <= layer.weight.min() < -19 < 1 < layer.weight.max() <= 2
    assert -16 <= model.output_from_x.weight.min() < -12 < -8 < model.output_from_x.weight.max()
    assert model.output_from_x.weight.max() <= -4
    assert 0.3 < torch.cat([layer.bias for layer in model.relu_units]).abs().max() <= 1.0
    limit = (6 / (30 + 40)) ** 0.5
    assert 0.95 * limit < model.relu_units[0].weight.abs().max() <= limit


def test_score_never_falls_with_a_revenue():
    assert_monotone(SMNN, pairs=360_000)


def test_surface_is_predict_at_every_pair():
    assert_surface_is_predict(SMNN)


def test_gradients_reach_every_parameter():
    assert_gradients_everywhere(SMNN)


@pytest.mark.parametrize("name", ["hidden", "layers"])
def test_sizes_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got 0"):
        SMNN(3, 2, **{name: 0})
