"""The whole program: log p(x, r, y), and synthetic rows; no value may be missing."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from pyro_gcm import GCM, IGCM, fit

A, SX = torch.tensor([1.0, -0.7, 0.5]), torch.tensor([0.6, 0.8, 1.0])  # x = A z + SX e
B = torch.tensor([[0.8, 0.3], [0.0, 0.7]])  # r = B w + C x + SR e
C, SR = torch.tensor([[0.3, 0.0, 0.2], [0.0, -0.4, 0.1]]), 0.5
MC, D, SC = torch.tensor([-0.3, -0.4]), torch.tensor([1.2, -0.8]), torch.tensor([0.7, 0.5])


def linear_rows(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, r and y drawn from the program."""
    g = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    z = noise(count, 1)
    x = z * A + SX * noise(count, 3)
    r = noise(count, 2) @ B.T + x @ C.T + SR * noise(count, 2)
    c = MC + z * D + SC * noise(count, 2)
    return x, r, (c < r).all(-1).float()


def log_densities(x: Tensor, r: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """log p(x, r) and log p(y | x, r), float64."""
    a, sx, b, c, mc, d, sc, x, r = (t.double() for t in (A, SX, B, C, MC, D, SC, x, r))
    covariance = b @ b.T + SR**2 * torch.eye(2)
    precision = 1.0 + (a**2 / sx**2).sum()
    nodes, weights = (torch.tensor(t) for t in np.polynomial.hermite_e.hermegauss(80))
    z = (x @ (a / sx**2) / precision)[:, None] + nodes / precision.sqrt()  # [B, 80]
    log_x = MultivariateNormal(torch.zeros_like(a), a.outer(a) + torch.diag(sx**2)).log_prob(x)
    log_r = MultivariateNormal(x @ c.T, covariance).log_prob(r)
    u = (r[:, None] - mc - z[..., None] * d) / sc
    p = (torch.special.ndtr(u).prod(-1) * (weights / weights.sum())).sum(-1)
    return log_x + log_r, torch.where(y > 0.5, p.log(), torch.log1p(-p))


def linear_model(**options: object) -> GCM:
    """A GCM with these densities; its guides are N(0, I), so that weights have to do the work."""
    gcm = GCM(3, 2, prior="standard", z_dim=1, hidden=(), **options).double()  # type: ignore[arg-type]
    parts = (
        (gcm.x_decoder, A[:, None], torch.zeros(3), SX),
        (gcm.r_decoder, torch.cat([B, C], 1), torch.zeros(2), torch.full((2,), SR)),
        (gcm.cost_net, D[:, None], MC, SC),
    )
    with torch.no_grad():
        for part, weight, bias, scale in parts:
            count = len(weight)
            linear = part.net[0]
            linear.weight.zero_()
            linear.weight[:count] = weight.double()
            linear.bias[:count] = bias.double()
            # `positive` is 0.05 + softplus(raw + log(expm1(0.95))).
            raw = torch.log(torch.expm1(scale.double() - 0.05)) - math.log(math.expm1(0.95))
            linear.bias[count:] = raw
        for guide in (gcm.z_guide, gcm.w_guide):
            for parameter in guide.parameters():  # type: ignore[union-attr]
                parameter.zero_()
    return gcm


@functools.cache
def trained() -> GCM:
    """A joint model of 5,000 rows."""
    x, r, y = linear_rows(5000, 0)
    model = GCM(3, 2, prior="standard", z_dim=2)
    training = {"epochs": 12, "batch_size": 512, "num_particles": 8, "learning_rate": 0.02}
    fit(model, x, r, y, objective="joint", **training, progress=False)
    return model


def test_prediction_of_a_known_program_is_the_integral() -> None:
    x, r, y = linear_rows(20, 8)
    _, wanted = log_densities(x, r, y)
    model = linear_model(num_samples=2**13)
    model.objective = "joint"
    assert (model.log_prob(x, r, y) - wanted).abs().max() < 0.01
    probability = torch.where(y > 0.5, model.predict(x, r), 1.0 - model.predict(x, r))
    torch.testing.assert_close(probability.log(), model.log_prob(x, r, y))
    model.objective = "conditional"  # without the weights it is the guide that speaks
    assert (model.log_prob(x, r, y) - wanted).abs().max() > 0.1


def test_synthetic_rows_have_the_moments_of_the_true_ones() -> None:
    rows = trained().simulate(10_000, seed=3)
    assert set(rows) == {"z", "w", "x", "r", "c", "y"}
    fake = torch.cat([rows["x"], rows["r"], rows["y"][:, None]], 1)
    true = torch.cat([t.reshape(10_000, -1) for t in linear_rows(10_000, 4)], 1)
    torch.testing.assert_close(fake.mean(0), true.mean(0), rtol=0, atol=0.06)
    torch.testing.assert_close(torch.corrcoef(fake.T), torch.corrcoef(true.T), rtol=0, atol=0.06)
    again = trained().simulate(10_000, seed=3)
    assert torch.equal(again["y"], rows["y"])
    assert not torch.equal(trained().simulate(10_000, seed=4)["x"], rows["x"])


def test_simulation_starts_from_what_the_program_has_learned_to_draw() -> None:
    x, r, _ = linear_rows(50, 5)
    rows = GCM(3, 2).simulate(x=x, r=r)
    assert torch.equal(rows["x"], x)
    assert torch.equal(rows["r"], r)
    assert IGCM(3, 2).simulate(x=x)["r"].shape == (50, 2)
    size: dict[str, Any] = {"size": 50}
    for prior, message, wrong in (
        (
            "standard",
            "size alone with prior='standard'",
            [{}, {"x": x}, {"x": x, **size}, {"r": r, **size}],
        ),
        ("conditional", "x in place of size", [{}, size, {"x": x, **size}]),
        ("conditional", r"r: objective='conditional' does not learn p\(r\|w, x\)", [{"x": x}]),
    ):
        for given in wrong:
            with pytest.raises(ValueError, match=f"simulate needs {message}"):
                GCM(3, 2, prior=prior).simulate(**given)


def test_effective_sample_size_tells_how_many_draws_carry_a_row() -> None:
    x, r, _ = linear_rows(30, 5)
    assert (GCM(3, 2, num_samples=32).effective_sample_size(x, r) == 32.0).all()
    model = trained()
    size = model.effective_sample_size(x, r)
    assert ((size > 1.0) & (size <= 128.0 + 1e-3)).all()
    off = linear_model(num_samples=128)  # its guide knows nothing of x
    off.objective = "joint"
    assert off.effective_sample_size(x, r).mean() < size.mean()
    implicit = IGCM(3, 2, prior="standard")
    implicit.objective = "joint"
    assert (implicit.effective_sample_size(x, r) < 128.0).all()
    with pytest.raises(ValueError, match=r"cost\(x\) is not available after objective='joint'"):
        implicit.cost(x)
