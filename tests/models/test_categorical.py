"""A categorical z is summed out: exact numbers, and nothing is drawn."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit

COUNT, CATEGORIES = 70, 3
Model = Any


def rows(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """x [70, 3], r [70, 2] far from unit scale, and y, which depends on both."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(COUNT, 3, generator=g)
    r = torch.rand(COUNT, 2, generator=g)
    margin = 2.0 * x[:, 0] + 4.0 * (r.sum(1) - 1.0) + torch.randn(COUNT, generator=g)
    return x.to(dtype), (50.0 + 20.0 * r).to(dtype), (margin > 0.0).to(dtype)


def gcm() -> GCM:
    return GCM(3, 2, prior="categorical", z_dim=CATEGORIES, hidden=8)


def igcm() -> IGCM:
    return IGCM(3, 2, k_dim=1, prior="categorical", z_dim=CATEGORIES, hidden=8)


models = pytest.mark.parametrize("kind", [gcm, igcm])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


@functools.cache  # no test changes a model
def trained(kind: Callable[[], Model], dtype: torch.dtype = torch.float64) -> Model:
    model = kind().to(dtype)
    fit(model, *rows(dtype), epochs=10, learning_rate=0.05, progress=False)
    return model


def by_hand(model: Model, x: Tensor, r: Tensor) -> Tensor:
    """Pr(y = 1 | x, r) = sum_z p(z|x) Pr(c < r | z), [B]."""
    x = (x - model.x_standardizer.loc) / model.x_standardizer.scale
    r = (r - model.r_standardizer.loc) / model.r_standardizer.scale
    if isinstance(model, IGCM):
        loc, variance = kernel_by_hand(model, x, r)
    else:
        loc, variance = r, torch.zeros_like(r)
    total = torch.zeros(len(x), dtype=x.dtype)
    weights = model.z_prior.net(x).softmax(-1)
    for category in range(CATEGORIES):
        z = torch.eye(CATEGORIES, dtype=x.dtype)[category]
        cost = model.cost_net(z).base_dist
        spread = (cost.scale.square() + variance).sqrt()
        total = total + weights[:, category] * torch.special.ndtr((loc - cost.loc) / spread).prod(1)
    return total


def kernel_by_hand(model: IGCM, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of k given r = w k + dr, for k ~ N(0, 1), each [B, 1]."""
    (weight,) = model.loading.weight.unbind(-1)  # [2]
    dr = model.dr_net(x).base_dist
    precision = 1.0 + (weight.square() / dr.scale.square()).sum(-1, keepdim=True)
    pull = (weight * (r - dr.loc) / dr.scale.square()).sum(-1, keepdim=True)
    return pull / precision, 1.0 / precision


@models
@dtypes
def test_prediction_has_the_same_bits_at_every_call_and_moves_no_generator(
    dtype: torch.dtype, kind: Callable[[], Model]
) -> None:
    model = trained(kind, dtype)
    x, r, y = rows(dtype)
    calls = [
        lambda: model.predict(x, r),
        lambda: model.surface(x, r[:9]),
        lambda: model.log_prob(x, r, y),
    ]
    for call in calls:
        wanted = call()
        for seed in range(2):
            torch.manual_seed(seed)
            state = torch.get_rng_state()
            assert torch.equal(call(), wanted)
            assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(copy.deepcopy(model).predict(x, r), model.predict(x, r))


@models
def test_prediction_is_the_finite_sum(kind: Callable[[], Model]) -> None:
    model = trained(kind)
    x, r, y = rows()
    wanted = by_hand(model, x, r)
    assert wanted.amax() - wanted.amin() > 0.3  # something was learned
    torch.testing.assert_close(model.predict(x, r), wanted, rtol=0.0, atol=1e-10)
    surface = by_hand(model, x.repeat_interleave(9, 0), r[:9].repeat(COUNT, 1)).reshape(COUNT, 9)
    torch.testing.assert_close(model.surface(x, r[:9]), surface, rtol=0.0, atol=1e-10)
    log_p = torch.where(y == 1.0, wanted, 1.0 - wanted).log()
    torch.testing.assert_close(model.log_prob(x, r, y), log_p, rtol=0.0, atol=1e-10)


@models
@dtypes
def test_prediction_rises_in_every_revenue(dtype: torch.dtype, kind: Callable[[], Model]) -> None:
    model = trained(kind, dtype)
    x, _, _ = rows(dtype)
    for column in range(2):
        r = torch.full((81, 2), 60.0, dtype=dtype)
        r[:, column] = torch.linspace(40.0, 80.0, 81, dtype=dtype)
        curves = model.surface(x[:20], r)
        assert (curves.diff(dim=1) >= 0).all()
        assert (curves[:, -1] > curves[:, 0]).all()


@models
def test_first_loss_of_fit_is_the_exact_evidence_whatever_the_seed(
    kind: Callable[[], Model],
) -> None:
    x, r, y = rows()
    model = kind().to(torch.float64)
    model.x_standardizer.learn(x)
    model.r_standardizer.learn(r)
    p = by_hand(model, x, r)
    wanted = -torch.where(y == 1.0, p, 1.0 - p).log().mean().item()
    for seed in range(3):
        result = fit(
            kind().to(torch.float64), x, r, y, elbo="enum", epochs=1, seed=seed, progress=False
        )
        assert result.history.loss[0] == pytest.approx(wanted, rel=0.0, abs=1e-10)


@pytest.mark.parametrize("options", [{}, {"k_dim": 1}], ids=["k sampled", "k in closed form"])
def test_implicit_model_trains_in_double_precision(options: dict[str, int]) -> None:
    model = IGCM(3, 2, prior="categorical", **options).double()
    x, r, y = torch.randn(40, 3), torch.rand(40, 2), (torch.arange(40) % 2).float()
    loss = fit(model, x, r, y, epochs=4, learning_rate=0.02, progress=False).history.loss
    assert loss.iloc[-1] < loss.iloc[0]
    assert torch.get_default_dtype() == torch.float32
