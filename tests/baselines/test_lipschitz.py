"""LipschitzMonotone against its formula, its bound and its promise."""

import numpy as np
import pytest
import torch
from baseline_checks import (
    assert_gradients_everywhere,
    assert_monotone,
    assert_surface_is_predict,
    columns,
    decreases,
    with_random_weights,
)

from pyro_gcm.baselines.lipschitz import LipschitzMonotone


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def made(generator, scale=1.0, bound=1.0):
    model = LipschitzMonotone(3, 2, hidden=6, bound=bound)
    return with_random_weights(model, scale, generator)


@pytest.mark.parametrize("scale", [0.05, 2.0], ids=["weights below the norm", "above"])
def test_score_is_the_published_formula(generator, scale):
    bound = 1.7
    model = made(generator, scale, bound)
    x, r = columns(generator)
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    share = bound ** (1 / 3)

    def sort_pairs(h):
        a, b = h[:, 0::2], h[:, 1::2]
        return np.stack([np.minimum(a, b), np.maximum(a, b)], 2).reshape(h.shape)

    h = np.hstack([x.numpy(), r.numpy()])
    h = sort_pairs(h @ np.clip(p["first.weight"], -share, share).T + p["first.bias"])
    for name in ("second", "output"):
        weights = p[f"{name}.weight"].copy()
        for row in weights:
            if np.abs(row).sum() > share:
                row *= share / np.abs(row).sum()
        h = h @ weights.T + p[f"{name}.bias"]
        h = sort_pairs(h) if name == "second" else h
    expected = h[:, 0] + bound * r.numpy().sum(1)
    np.testing.assert_allclose(model.score(x, r).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bound", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("scale", [0.2, 1.0, 10.0])
def test_slopes_stay_below_the_bound(generator, bound, scale):
    model = made(generator, scale, bound)
    x, r = columns(generator, 20_000)
    dx, dr = columns(generator, 20_000)
    sizes = 10.0 ** (4 * torch.rand(20_000, 1, generator=generator, dtype=torch.float64) - 3)
    with torch.no_grad():
        here = model.lipschitz_part(model.encode(x), r)
        there = model.lipschitz_part(model.encode(x + sizes * dx), r + sizes * dr)
    distance = sizes[:, 0] * torch.cat([dx, dr], 1).abs().sum(1)
    assert ((here - there).abs() <= bound * distance + 1e-12).all()


def test_slopes_reach_the_bound():
    model = LipschitzMonotone(3, 2, hidden=6, bound=1.7).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(100.0)
    r = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    model.score(torch.zeros(1, 3, dtype=torch.float64), r).backward()
    assert torch.allclose(r.grad, torch.full_like(r, 2 * 1.7), rtol=0, atol=1e-12)


def test_score_never_falls_with_a_revenue():
    assert_monotone(LipschitzMonotone, pairs=280_000)


def test_score_never_falls_where_the_network_falls_as_fast_as_it_may(generator):
    model = made(generator)
    with torch.no_grad():
        for parameter in (model.first.weight, model.second.weight, model.output.weight):
            parameter.copy_(10 * parameter.abs() + 10)
        model.first.weight.neg_()
    assert decreases(model, 70_000) == 0


def test_surface_is_predict_at_every_pair():
    assert_surface_is_predict(LipschitzMonotone)


def test_gradients_reach_every_parameter():
    assert_gradients_everywhere(LipschitzMonotone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 5}, "hidden must be even, GroupSort sorts pairs of units, got 5"),
        ({"hidden": 0}, "hidden must be an integer of at least 1, got 0"),
        ({"bound": 0.0}, r"bound must be a number above 0, got 0\.0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        LipschitzMonotone(3, 2, **options)
