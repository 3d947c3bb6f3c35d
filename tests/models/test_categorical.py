"""A categorical z is summed out: exact numbers, and nothing is drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit

COUNT, CATEGORIES = 70, 3
OPTIONS: dict[type, dict[str, Any]] = {GCM: {}, IGCM: {"k_dim": 1}}
kinds = pytest.mark.parametrize("kind", OPTIONS)


def rows() -> tuple[Tensor, Tensor, Tensor]:
    return zoo.rows(count=COUNT)[:3]


def options_of(kind: type) -> dict[str, Any]:
    return {"prior": "categorical", "z_dim": CATEGORIES, "hidden": 8, **OPTIONS[kind]}


def by_hand(model: Any, x: Tensor, r: Tensor) -> Tensor:
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


@kinds
def test_nothing_is_drawn(kind: type) -> None:
    model, (x, r, y) = zoo.learned(kind, **options_of(kind)), rows()
    state = torch.get_rng_state()
    for call in (lambda: model.predict(x, r), lambda: model.log_prob(x, r, y)):
        call()
        assert torch.equal(torch.get_rng_state(), state)


@kinds
def test_prediction_is_the_finite_sum(kind: type) -> None:
    model = zoo.learned(kind, **options_of(kind))
    x, r, y = rows()
    wanted = by_hand(model, x, r)
    assert wanted.amax() - wanted.amin() > 0.3  # something was learned
    torch.testing.assert_close(model.predict(x, r), wanted, rtol=0.0, atol=1e-10)
    surface = by_hand(model, x.repeat_interleave(9, 0), r[:9].repeat(COUNT, 1)).reshape(COUNT, 9)
    torch.testing.assert_close(model.surface(x, r[:9]), surface, rtol=0.0, atol=1e-10)
    log_p = torch.where(y == 1.0, wanted, 1.0 - wanted).log()
    torch.testing.assert_close(model.log_prob(x, r, y), log_p, rtol=0.0, atol=1e-10)


@kinds
def test_first_loss_of_fit_is_the_exact_evidence_whatever_the_seed(kind: type) -> None:
    x, r, y = rows()
    model = zoo.make(kind, **options_of(kind))
    model.x_standardizer.learn(x)
    model.r_standardizer.learn(r)
    p = by_hand(model, x, r)
    wanted = -torch.where(y == 1.0, p, 1.0 - p).log().mean().item()
    for seed in range(3):
        model = zoo.make(kind, **options_of(kind))
        result = fit(model, x, r, y, elbo="enum", epochs=1, seed=seed, progress=False)
        assert result.history.loss[0] == pytest.approx(wanted, rel=0.0, abs=1e-10)


@pytest.mark.parametrize("options", [{}, {"k_dim": 1}], ids=["k sampled", "k in closed form"])
def test_implicit_model_trains_in_double_precision(options: dict[str, int]) -> None:
    model = IGCM(3, 2, prior="categorical", **options).double()
    x, r, y = torch.randn(40, 3), torch.rand(40, 2), (torch.arange(40) % 2).float()
    loss = fit(model, x, r, y, epochs=4, learning_rate=0.02, progress=False).history.loss
    assert loss.iloc[-1] < loss.iloc[0]
    assert torch.get_default_dtype() == torch.float32
