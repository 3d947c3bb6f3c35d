"""The whole program: log p(x, r, y), and synthetic rows; no value may be missing."""

from __future__ import annotations

import functools
from typing import Any

import linear_program
import pytest
import torch

from pyro_gcm import GCM, IGCM, fit


@functools.cache
def trained() -> GCM:
    """A joint model of 5,000 rows."""
    x, r, y = linear_program.rows(5000, 0)
    model = GCM(3, 2, prior="standard", z_dim=2)
    training = {"epochs": 12, "batch_size": 512, "num_particles": 8, "learning_rate": 0.02}
    fit(model, x, r, y, objective="joint", **training, progress=False)
    return model


def test_prediction_of_a_known_program_is_the_integral() -> None:
    x, r, y = linear_program.rows(20, 8)
    _, wanted = linear_program.log_densities(x, r, y)
    model = linear_program.model(num_samples=2**13)
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
    true = torch.cat([t.reshape(10_000, -1) for t in linear_program.rows(10_000, 4)], 1)
    torch.testing.assert_close(fake.mean(0), true.mean(0), rtol=0, atol=0.06)
    torch.testing.assert_close(torch.corrcoef(fake.T), torch.corrcoef(true.T), rtol=0, atol=0.06)
    again = trained().simulate(10_000, seed=3)
    assert torch.equal(again["y"], rows["y"])
    assert not torch.equal(trained().simulate(10_000, seed=4)["x"], rows["x"])


def test_simulation_starts_from_what_the_program_has_learned_to_draw() -> None:
    x, r, _ = linear_program.rows(50, 5)
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
    x, r, _ = linear_program.rows(30, 5)
    assert (GCM(3, 2, num_samples=32).effective_sample_size(x, r) == 32.0).all()
    model = trained()
    size = model.effective_sample_size(x, r)
    assert ((size > 1.0) & (size <= 128.0 + 1e-3)).all()
    off = linear_program.model(num_samples=128)  # its guide knows nothing of x
    off.objective = "joint"
    assert off.effective_sample_size(x, r).mean() < size.mean()
    implicit = IGCM(3, 2, prior="standard")
    implicit.objective = "joint"
    assert (implicit.effective_sample_size(x, r) < 128.0).all()
    with pytest.raises(ValueError, match=r"cost\(x\) is not available after objective='joint'"):
        implicit.cost(x)
