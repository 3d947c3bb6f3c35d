"""What all baselines promise: units, surfaces, monotone or not, gradients, penalties, refusals."""

from __future__ import annotations

import copy
import functools
import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from baseline_checks import ALL, NARROW, OTHERS, R_DIM, STRICT, X_DIM, Make, decreases, made, rows

from pyro_gcm import audit_monotonicity, baselines
from pyro_gcm.baselines import MLP, PWL, Baseline, Hint, fit


@functools.cache
def trained(name: str) -> Baseline:
    """A baseline in float64 after a few steps of training, for all tests."""
    model = made((ALL | NARROW)[name])
    fit(model, *rows(640), epochs=2, batch_size=64, learning_rate=0.05, progress=False)
    return model


def counter_trained(make: Make) -> tuple[Baseline, torch.Tensor, torch.Tensor]:
    """A model in float64, trained on outcomes that decrease in the first revenue."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(1_000, 3, generator=g), torch.randn(1_000, 2, generator=g)
    y = (x[:, 0] - r[:, 0] + r[:, 1] * x[:, 1] > 0).float()
    torch.manual_seed(0)
    model = make(3, 2, hidden=16)
    fit(model, x, r, y, epochs=4, batch_size=100, progress=False)
    return model.double(), x, r


@pytest.mark.parametrize("pairs", [8_000, pytest.param(125_000, marks=pytest.mark.long(keep=0))])
@pytest.mark.parametrize("name", STRICT)
def test_no_score_decreases_for_random_and_trained_weights(name: str, pairs: int) -> None:
    models = [made(STRICT[name], seed, scale) for seed, scale in enumerate((0.3, 1.0, 3.0))]
    models += [trained(name), counter_trained(STRICT[name])[0]]
    for seed, model in enumerate(models):
        assert model.strict
        assert decreases(model, pairs, seed) == 0


def test_the_other_baselines_do_not_claim_to_be_monotone_and_are_not() -> None:
    for name, make in OTHERS.items():
        model, x, r = counter_trained(make)
        assert not model.strict, name
        assert not audit_monotonicity(model, x, r, pairs=4_000, progress=False).passed, name


def test_surface_is_predict_at_every_pair() -> None:
    """Cached, not cached and row by row give the same predictions, in both precisions."""
    x, revenues = rows(3)[0], rows(4, seed=1)[1]
    precisions = ((torch.float32, 1e-6), (torch.float64, 1e-12))
    for name, (dtype, tolerance) in itertools.product(ALL, precisions):
        model = copy.deepcopy(trained(name)).to(dtype)
        cached = model.surface(x, revenues)
        assert (cached.shape, cached.dtype) == ((3, 4), dtype), name
        pairs = [[model.predict(x[i : i + 1], r[None])[0] for r in revenues] for i in range(3)]
        by_row = torch.tensor(pairs, dtype=dtype)
        for other in (model.surface(x, revenues, cached=False), by_row):
            torch.testing.assert_close(cached, other, rtol=0.0, atol=tolerance, msg=name)


def test_gradients_reach_every_parameter() -> None:
    for name, make in (ALL | NARROW).items():
        for model in (made(make), trained(name)):
            model.zero_grad(set_to_none=True)
            model.loss(*rows(500)).backward()
            for place, parameter in model.named_parameters():
                assert parameter.grad is not None, (name, place)
                assert parameter.grad.any(), (name, place)
                assert not parameter.grad.isnan().any(), (name, place)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (baselines.SMM, {"form": "smooth"}, "form must be one of .* got 'smooth'"),
    (baselines.SMNN, {"form": "paper"}, "form must be one of .*'released'.*, got 'paper'"),
    (baselines.LipschitzMonotone, {"bound": 0.0}, r"bound must be .* above 0, got 0\.0"),
    (baselines.Hint, {"weight": -1.0}, r"weight must be a number above 0, got -1\.0"),
    (baselines.Hint, {"max_shift": 0.0}, r"max_shift must be a number above 0, got 0\.0"),
    (baselines.Hint, {"pairs": "all"}, "pairs must be one of .*'comparable'.*, got 'all'"),
    (baselines.PWL, {"weight": 0.0}, r"weight must be a number above 0, got 0\.0"),
    (baselines.MLP, {"response": "ordinal"}, "response must be one of .*, got 'ordinal'"),
]


def test_invalid_options_are_refused() -> None:
    for make, options, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            make(**{"x_dim": X_DIM, "r_dim": R_DIM, **options})


# Units, losses and predictions


class Sum(Baseline):
    """Score sum(x) + 2 sum(r) of standardised inputs."""

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x.sum(-1, keepdim=True),)

    def decode(self, encoded: tuple[torch.Tensor, ...], r: torch.Tensor) -> torch.Tensor:
        return (encoded[0] + 2.0 * r.sum(-1, keepdim=True)).squeeze(-1)


def standard(values: Any) -> Any:
    return (values - values.mean(0)) / values.std(0)


@pytest.mark.parametrize("response", ["binary", "continuous", "quantile"])
def test_predictions_and_losses_use_the_units_of_the_data(response: str) -> None:
    x, r, y = (column.numpy() for column in rows(50))
    x, r = 10.0 * x + 3.0, 100.0 * r - 7.0
    y = y if response == "binary" else 1000.0 + 50.0 * y + x[:, 0]
    if response == "quantile":
        r = (r[:, :1] - r.min() + 0.1) / (np.ptp(r) + 0.2)
    model = Sum(3, r.shape[1], response=response).double()
    model.learn_units(*map(torch.from_numpy, (x, r, y)))
    score = standard(x).sum(1) + 2.0 * standard(r).sum(1)
    if response == "binary":
        wanted = 1.0 / (1.0 + np.exp(-score))
        assert model.y_units.scale == 1.0
    else:
        wanted = y.mean() + y.std() * score
    np.testing.assert_allclose(model.predict(x, r).numpy(), wanted, rtol=1e-12)
    surface = model.surface(x[:3], r[:4]).numpy()
    assert surface.shape == (3, 4)
    np.testing.assert_allclose(surface.diagonal(), wanted[:3], rtol=1e-12)
    with torch.no_grad():
        forward = model(*map(torch.from_numpy, (x, r))).numpy()
    np.testing.assert_allclose(forward, score, rtol=1e-12)

    error = standard(y) - score
    wanted = {
        "binary": np.logaddexp(0.0, score) - y * score,
        "continuous": error**2,
        "quantile": np.where(error > 0.0, r[:, 0], r[:, 0] - 1.0) * error,
    }[response]
    loss = model.loss(*map(torch.from_numpy, (x, r, y)))
    assert loss.item() == pytest.approx(wanted.mean(), rel=1e-12)


def test_surface_encodes_covariates_once_unless_not_cached() -> None:
    seen: list[int] = []

    class Counting(MLP):
        def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            seen.append(len(x))
            return super().encode(x)

    model = made(Counting)
    model.surface(rows(5)[0], rows(7)[1])
    model.surface(rows(5)[0], rows(7)[1], cached=False)
    assert seen == [5, 35]


def test_predictions_leave_mode_and_random_state_unchanged() -> None:
    model, (x, r, _) = made(MLP), rows(5)
    model.network.hidden.eval()
    before = torch.get_rng_state()
    model.predict(x, r)
    model.surface(x, r)
    assert model.training
    assert not model.network.hidden.training
    assert not model.predict(x, r).requires_grad
    assert torch.equal(before, torch.get_rng_state())


def test_inputs_of_a_loss_of_wrong_shapes_are_refused_by_name() -> None:
    """Those of `predict` and `surface` are in `tests/arguments`."""
    model, (x, r, _) = made(MLP), rows(5)
    for columns, message in (
        ((x, r, x[:, :1]), r"y must have shape \[5\], got \(5, 1\)"),
        ((x, r[:, :1], x[:, 0]), r"\[B, 2\], got \(5, 3\) and \(5, 1\)"),
        ((x[:1], r, x[:, 0]), r"\[B, 2\], got \(1, 3\) and \(5, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.loss(*columns)


# Hint and PWL: an MLP with a monotonicity penalty


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
