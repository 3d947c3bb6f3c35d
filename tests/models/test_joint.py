"""The whole program: log p(x, r, y), synthetic rows, and values that are missing."""

from __future__ import annotations

import copy
import functools
import math
import warnings

import linear_program
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO

TRAINING = {
    "epochs": 12,
    "batch_size": 512,
    "num_particles": 8,
    "learning_rate": 0.02,
    "progress": False,
}


def evidence(model: GCM, x: Tensor, r: Tensor, y: Tensor, particles: int) -> Tensor:
    """log p(x, r, y) of every row by importance sampling, where x and r are there."""
    pair = model.training_pair("joint")
    bound = ImportanceWeightedELBO(particles, max_plate_nesting=1)
    with torch.no_grad():
        parts = [
            bound.log_weights(pair.program, pair.guide, *part)
            for part in zip(x.split(200), r.split(200), y.split(200), strict=True)
        ]
    return torch.logsumexp(torch.cat(parts, 1), 0) - math.log(particles)


@functools.cache
def trained(missing: str = "none") -> GCM:
    """A joint model of 5,000 rows: complete, with 30 % of the revenues missing, or imputed."""
    x, r, y = linear_program.rows(5000, 0)
    if missing != "none":
        r = gaps(r, 2)
    if missing == "imputed":
        r = imputed(r, r)
    model = GCM(3, 2, prior="standard", z_dim=2)
    fit(model, x, r, y, objective="joint", **TRAINING)
    return model


def gaps(r: Tensor, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.where(torch.rand(r.shape, generator=g) < 0.3, torch.nan, r)


def imputed(r: Tensor, known: Tensor) -> Tensor:
    return torch.where(r.isnan(), known.nanmean(0), r)


def test_evidence_of_a_known_program_is_the_integral() -> None:
    x, r, y = linear_program.rows(30, 7)
    r = linear_program.hidden(r, 0.3, 1)
    assert 5 < r.isnan().sum() < 25
    log_xr, log_y = linear_program.log_densities(x, r, y)
    model = linear_program.model()
    found = torch.stack([evidence(model, x.double(), r.double(), y, 4000) for _ in range(8)])
    error = found.std(0) / 8**0.5
    assert error.max() < 0.1
    gap = found.mean(0) - (log_xr + log_y)
    assert (gap.abs() < 5.0 * error + 0.002).all()


def test_prediction_of_a_known_program_is_the_integral() -> None:
    x, r, y = linear_program.rows(20, 8)
    r = linear_program.hidden(r, 0.3, 2)
    _, wanted = linear_program.log_densities(x, r, y)
    model = linear_program.model(num_samples=2**13)
    model.objective = "joint"
    complete = ~r.isnan().any(-1)
    gap = (model.log_prob(x, r, y) - wanted).abs()
    assert gap[complete].max() < 0.01
    assert gap.max() < 0.1
    probability = torch.where(y > 0.5, model.predict(x, r), 1.0 - model.predict(x, r))
    torch.testing.assert_close(probability.log(), model.log_prob(x, r, y))
    model.objective = "conditional"  # without the weights it is the guide that speaks
    x, r, y = x[complete], r[complete], y[complete]
    assert (model.log_prob(x, r, y) - wanted[complete]).abs().max() > 0.1


def test_missing_covariates_are_integrated_out() -> None:
    x, r, y = (t.double() for t in linear_program.rows(4, 9))
    lp = linear_program
    x[:, 1] = torch.nan
    g = torch.Generator().manual_seed(0)
    draws = 100_000
    z = torch.randn(draws, 1, generator=g).double()
    filled = z * lp.A[1] + lp.SX[1] * torch.randn(draws, 1, generator=g)
    covariance = (lp.B @ lp.B.T + lp.SR**2 * torch.eye(2)).double()
    wanted, prediction = [], []
    for i in range(4):
        seen = x[i, [0, 2]]
        log_x = torch.distributions.Normal(z * lp.A[[0, 2]], lp.SX[[0, 2]]).log_prob(seen).sum(-1)
        full = torch.stack([seen[0].expand(draws), filled[:, 0], seen[1].expand(draws)], 1)
        mean = full @ lp.C.T.double()
        log_r = torch.distributions.MultivariateNormal(mean, covariance).log_prob(r[i])
        u = (r[i] - lp.MC - z * lp.D) / lp.SC
        p = torch.special.ndtr(u).prod(-1)
        likelihood = p if y[i] > 0.5 else 1.0 - p
        weight = (log_x + log_r).exp()
        wanted.append((weight * likelihood).mean().log())
        # r speaks about the missing value of x, and so about z.
        prediction.append((weight * p).mean() / weight.mean())
    model = linear_program.model(num_samples=2**14)
    found = torch.stack([evidence(model, x, r, y, 20_000) for _ in range(8)])
    error = found.std(0) / 8**0.5
    assert ((found.mean(0) - torch.stack(wanted)).abs() < 5.0 * error + 0.02).all()
    model.objective = "joint"
    torch.testing.assert_close(model.predict(x, r), torch.stack(prediction), rtol=0, atol=0.01)


@pytest.mark.long(keep=0)
def test_fitted_program_scores_held_out_rows_like_the_true_one() -> None:
    x, r, y = linear_program.rows(2000, 1)
    model = trained()
    log_xr, log_y = linear_program.log_densities(x, r, y)
    gap = log_xr + log_y - evidence(model, x, r, y, 1000).double()
    assert 0.0 < gap.mean() < 0.02  # nats a row
    assert (log_y - model.log_prob(x, r, y)).mean() < 0.01


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
    for given in ({}, {"x": x}, {"size": 50, "x": x}, {"size": 50, "r": r}):
        with pytest.raises(ValueError, match="simulate needs size alone with prior='standard'"):
            GCM(3, 2, prior="standard").simulate(**given)
    for given in ({}, {"size": 50}, {"size": 50, "x": x}):
        with pytest.raises(ValueError, match="simulate needs x in place of size"):
            GCM(3, 2).simulate(**given)
    with pytest.raises(ValueError, match=r"simulate needs r: .* objective='joint' alone"):
        GCM(3, 2).simulate(x=x)


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


@pytest.mark.long(keep=0)
def test_missing_revenues_are_worth_more_than_their_means() -> None:
    x, r, y = linear_program.rows(4000, 1)
    r = gaps(r, 3)
    score = trained("some").log_prob(x, r, y)
    other = trained("imputed").log_prob(x, imputed(r, gaps(linear_program.rows(5000, 0)[1], 2)), y)
    gain = score - other
    assert gain.mean() > 3.0 * gain.std() / 4000**0.5
    assert gain.mean() > 0.005


def test_rows_without_gaps_keep_their_bits_beside_rows_with_gaps() -> None:
    model = trained("some")
    x, r, _ = linear_program.rows(100, 6)
    wanted = model.predict(x, r)
    mixed = r.clone()
    mixed[::3, 1] = torch.nan
    mixed_x = x.clone()
    mixed_x[1::3, 0] = torch.nan
    found = model.predict(mixed_x, mixed)
    assert found.isfinite().all()
    assert torch.equal(found[2::3], wanted[2::3])
    assert (found[::3] != wanted[::3]).all()
    assert torch.equal(model.predict(mixed_x[:1], mixed[:1]), found[:1])
    assert torch.equal(copy.deepcopy(model).predict(mixed_x, mixed), found)


def test_gaps_are_refused_where_no_program_fills_them() -> None:
    x, r, y = linear_program.rows(50, 5)
    broken = r.clone()
    broken[3, 0] = torch.nan
    for model in (GCM(3, 2), GCM(3, 2, prior="standard")):
        with pytest.raises(ValueError, match=r"r must be finite, got 1 NaN.* row 3"):
            fit(model, x, broken, y, progress=False)
        with pytest.raises(ValueError, match="r must be finite"):
            model.predict(x, broken)
    empty = torch.stack([r[:, 0], torch.full((50,), torch.nan)], 1)
    with pytest.raises(ValueError, match="r has no value in column 1, only NaN"):
        fit(GCM(3, 2, prior="standard"), x, empty, y, objective="joint", progress=False)
    with pytest.raises(ValueError, match="revenues must be finite"):
        trained("some").surface(x, broken)
    with pytest.raises(ValueError, match="x must be finite"):
        trained("some").surface(torch.full_like(x, torch.nan), r)


def test_gradient_that_gaps_would_bias_is_refused() -> None:
    x, r, y = linear_program.rows(50, 5)
    model = GCM(3, 2, prior="standard")
    fit(model, x, r, y, objective="joint", elbo="dreg", epochs=1, progress=False)
    r[7, 1] = torch.nan
    with pytest.raises(ValueError, match="elbo='dreg' needs guide sites that are independent"):
        fit(model, x, r, y, objective="joint", elbo="dreg", epochs=1, progress=False)


def test_joint_training_is_remembered_with_the_weights() -> None:
    x, r, y = linear_program.rows(200, 5)
    model = GCM(3, 2, prior="standard")
    assert model.objective == "conditional"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(model, x, r, y, objective="joint", epochs=1, progress=False)
    assert model.objective == "joint"
    other = GCM(3, 2, prior="standard", seed=5)
    other.load_state_dict(model.state_dict())
    assert other.objective == "joint"
    with pytest.raises(ValueError, match="objective must be one of"):
        model.objective = "marginal"
