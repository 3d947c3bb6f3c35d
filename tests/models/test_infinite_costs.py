"""Responses that are capped, by costs that are infinite or bounded maps, and rates of guesses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit, load, save
from pyro_gcm.responses import Guessed


def rows(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, r, y and the probability of a row that never responds, a function of x."""
    g = torch.Generator().manual_seed(seed)
    x, r = torch.randn(count, 2, generator=g), 10.0 * torch.rand(count, 2, generator=g)
    cost = torch.stack([3.0 + x[:, 0], 2.0 - x[:, 1]], 1) + torch.randn(count, 2, generator=g)
    p0 = torch.sigmoid(-2.2 + x[:, 0])
    never = torch.rand(count, generator=g) < p0
    return x, r, ((cost < r).all(1) & ~never).float(), p0


@pytest.mark.parametrize("p0", ["constant", "conditional"])
@pytest.mark.parametrize("options", [{}, {"alternatives": 3, "costs": 2}], ids=["plain", "3 x 2"])
def test_every_alternative_has_a_probability_of_its_own(options: dict[str, Any], p0: str) -> None:
    model = GCM(2, 2, p0=p0, **options)
    x, r, y, _ = rows(200, 0)
    before = [value.clone() for value in model.infinite_net.parameters()]
    fit(model, x, r, y, epochs=2, num_particles=8, progress=False)
    for first, value in zip(before, model.infinite_net.parameters(), strict=True):
        assert not torch.equal(first, value)
    p = torch.sigmoid(model.infinite_net(model.x_standardizer(x)))
    assert p.shape == ((200, 3) if options else (200,))
    ceiling = 1.0 - (p.prod(-1) if options else p)
    largest = model.predict(x, torch.full((200, 2), 1e6))
    torch.testing.assert_close(largest, ceiling.detach(), rtol=1e-5, atol=1e-6)
    assert (model.predict(x, r) <= largest).all()


def test_costs_of_a_model_have_their_atom() -> None:
    x, r, _, _ = rows(50, 0)
    model = GCM(2, 2, p0="constant")
    cost = model.cost(x)
    torch.testing.assert_close(cost.cdf(r), model.predict(x, r))
    share = cost.sample((1000,)).isinf().all(-1).float().mean()
    assert share == pytest.approx(torch.sigmoid(torch.tensor(-3.0)).item(), abs=0.005)
    assert not cost.cdf(torch.zeros(2)).requires_grad


def test_implicit_model_is_capped_too() -> None:
    x, r, y, _ = rows(300, 0)
    for options in ({}, {"k_dim": 1}):  # the kernel sampled, and in closed form
        model = IGCM(2, 2, p0="constant", **options)
        fit(model, x, r, y, epochs=2, num_particles=8, progress=False)
        ceiling = 1.0 - torch.sigmoid(model.infinite_net.logits)
        assert (model.predict(x, r) < ceiling).all()
        sites = {"z": torch.zeros(1, 300, model.z_dim), "k": torch.full((1, 300, model.k_dim), 1e6)}
        p = model.log_likelihood(x, r, torch.ones(300), sites=sites).exp()
        torch.testing.assert_close(p, ceiling.detach().expand(1, 300), rtol=1e-5, atol=1e-6)


def test_bounded_map_keeps_the_response_between_0_and_1() -> None:
    x, r, y, _ = rows(500, 0)
    for revenue_map in ("sigmoid", torch.distributions.SigmoidTransform()):
        fit(model := GCM(2, 2, revenue_map=revenue_map), x, r, y, epochs=4, progress=False)
        low, near, far = (model.predict(x, torch.full_like(r, v)) for v in (-1e6, 12.0, 1e6))
        assert (near <= far).all()
        assert ((low > 0.0) & (far < 1.0)).all()


def guessing(**options: Any) -> GCM:
    response = Guessed(**options)
    model = GCM(3, 1, response=response, p0="constant", hidden=4, z_dim=2, seed=2).double()
    x, r = few(200)
    model.learn_units(x, r, torch.arange(200.0) % 2)
    return model


def few(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    x, r = (torch.randn(count, d, generator=g, dtype=torch.float64) for d in (3, 1))
    return x, 4.0 * r


@pytest.mark.parametrize("guess", ["constant", "conditional"])
def test_curves_run_between_the_guess_and_the_lapse_rate(guess: str, tmp_path: Path) -> None:
    model, (x, r) = guessing(guess=guess), few(300)
    y = (torch.rand(300, generator=torch.Generator().manual_seed(3)) < 0.2).double()
    y = torch.where(r[:, 0] > 0.0, 1.0, y)
    fit(model, x, r, y, epochs=3, progress=False)
    ends = model.surface(x, torch.tensor([[-1e4], [0.0], [1e4]]))
    g = torch.sigmoid(model.response.logits(model.x_standardizer(x)))
    top = g + (1.0 - g) * torch.sigmoid(-model.infinite_net(model.x_standardizer(x)))
    torch.testing.assert_close(ends[:, 0], g)
    torch.testing.assert_close(ends[:, 2], top)
    assert (ends.diff(dim=1) >= 0.0).all()
    torch.testing.assert_close(ends[:, 1], model.predict(x, torch.zeros(300, 1)))
    save(model, tmp_path / "saved")
    assert torch.equal(load(tmp_path / "saved").predict(x, r), model.predict(x, r))


def test_a_known_rate_stays() -> None:
    model, (x, r) = guessing(rate=0.5), few(60)
    fit(model, x, r, torch.arange(60.0) % 2, epochs=2, progress=False)
    low = model.predict(x, torch.full((60, 1), -1e4))
    torch.testing.assert_close(low, torch.full_like(low, 0.5))
