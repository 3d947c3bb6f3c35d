"""Hint and PWL: an MLP with a monotonicity penalty."""

from functools import partial

import numpy as np
import pytest
import torch

from pyro_gcm.baselines import MLP, PWL, Hint, fit

VARIANTS = {"shifted": Hint, "comparable": partial(Hint, pairs="comparable"), "pointwise": PWL}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def variant(request):
    return request.param


def columns(rows=40):
    return torch.randn(rows, 3).double(), torch.randn(rows, 2).double(), torch.arange(rows) % 2


def steep(variant, sign, **options):
    """A model whose score increases (sign 1) or decreases (-1) in every revenue."""
    model = variant(3, 2, hidden=4, **options).double()
    with torch.no_grad():
        for parameter in (model.network.hidden[0].weight, model.network.output.weight):
            parameter.abs_()
        model.network.r_layer.weight.abs_().mul_(sign)
    return model


def penalty(model, x, r, y):
    """The difference between the loss and that of the data; the seed fixes the pairs."""
    torch.manual_seed(7)
    total = model.standard_loss(x, r, r, y)
    torch.manual_seed(7)
    return (total - MLP.standard_loss(model, x, r, r, y)).item()


def score_and_slopes(model, x, r):
    """The score and its slopes [B, 2] in r, in numpy."""
    p = {name: value.detach().numpy() for name, value in model.network.named_parameters()}
    first = np.tanh(x @ p["x_layer.weight"].T + p["x_layer.bias"] + r @ p["r_layer.weight"].T)
    second = np.tanh(first @ p["hidden.0.weight"].T + p["hidden.0.bias"])
    score = second @ p["output.weight"][0] + p["output.bias"][0]
    back = (p["output.weight"] * (1 - second**2)) @ p["hidden.0.weight"] * (1 - first**2)
    return score, back @ p["r_layer.weight"]


@pytest.mark.parametrize("given", [True, False], ids=["given options", "defaults of the paper"])
def test_penalty_is_its_formula(variant, given):
    x, r, y = columns()
    weight, shift = (3.0, 0.4) if given else (0.01 if variant is PWL else 1.0, 0.1)
    options = {"weight": weight, "max_shift": shift} if given else {}
    if variant is PWL:
        options.pop("max_shift", None)
    model = variant(3, 2, hidden=4, **options).double()
    found = penalty(model, x, r, y)
    with torch.no_grad():
        assert penalty(model, x, r, y) == found
    assert not r.requires_grad
    if variant is PWL:
        fall = -score_and_slopes(model, x.numpy(), r.numpy())[1]
        expected = weight * np.maximum(fall, 0).sum()
    else:
        torch.manual_seed(7)
        if variant is Hint:
            low, high = r.numpy(), (r + shift * torch.rand(40, 2, dtype=torch.float64)).numpy()
        else:
            other = r[torch.randperm(40)].numpy()
            low, high = np.minimum(r.numpy(), other), np.maximum(r.numpy(), other)
        fall = score_and_slopes(model, x.numpy(), low)[0]
        fall = fall - score_and_slopes(model, x.numpy(), high)[0]
        expected = weight * np.mean(np.maximum(fall, 0) ** 2)
    assert fall.min() < 0 < fall.max()
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


def test_penalty_is_zero_for_an_increasing_score_and_only_that_of_pwl_grows_with_the_batch(variant):
    # A penalty that mixed rows would not be 0, since the rows differ.
    rows = columns()
    assert penalty(steep(variant, 1), *rows) == 0.0
    model = steep(variant, -1)
    found = penalty(model, *rows)
    assert found > 1e-4
    growth = penalty(model, *(torch.cat([part, part]) for part in rows)) / found
    assert growth == (pytest.approx(2) if variant is PWL else pytest.approx(1, rel=0.3))


@pytest.mark.long(keep=1)
def test_training_with_the_penalty_reduces_the_rate_and_the_size_of_violations(variant):
    # So few rows that the model fits decreases that are noise.
    torch.manual_seed(0)
    x, r = torch.randn(200, 1), 4 * torch.rand(200, 1) - 2
    y = torch.rand(200) < torch.sigmoid(r[:, 0] + x[:, 0])
    grid = torch.linspace(-2, 2, 200).unsqueeze(1)
    rates, sizes = [], []
    for weight in (1e-9, 1000.0):
        torch.manual_seed(0)
        model = variant(1, 1, weight=weight)
        options = {"epochs": 100, "batch_size": 50, "learning_rate": 0.03, "device": "cpu"}
        fit(model, x, r, y, progress=False, **options)
        steps = model.surface(x, grid).diff(dim=1)
        rates.append((steps < 0).double().mean().item())
        sizes.append(-steps.clamp(max=0).sum(1).mean().item())
    assert rates[0] > 0.2
    assert rates[1] < 0.6 * rates[0]
    assert sizes[1] < 0.1 * sizes[0]
