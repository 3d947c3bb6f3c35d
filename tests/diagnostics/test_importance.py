"""Weights of a toy whose evidence and Pareto shape are known, and of models; guides as samplers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from known_posteriors import linear, posterior_of, revenues, rows
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM
from pyro_gcm.diagnostics import (
    SBCResult,
    bound_by_particles,
    guide_draws,
    importance_diagnostics,
    simulation_based_calibration,
)

COUNT, ROWS, DIMENSIONS = 1200, 40, 2


class OfKnownPosterior(nn.Module):
    """The posterior of z of `linear(GCM)` as a guide, moved and stretched."""

    def __init__(self, shift: float = 0.0, spread: float = 1.0) -> None:
        super().__init__()
        self.shift, self.spread, self.model = shift, spread, linear(GCM)

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
        mean, covariance = posterior_of(self.model, x, r, y)
        sd = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
        return dist.MultivariateNormal(mean + self.shift * sd, self.spread**2 * covariance)


def toy(spread: float = 1.0) -> Any:
    """A model whose posterior is known, with its scale times `spread` as the guide."""
    model = linear(GCM)
    model.z_guide = OfKnownPosterior(0.0, spread)
    return model


def toy_rows() -> tuple[Tensor, Tensor, Tensor]:
    x, r = rows(ROWS), revenues(ROWS)
    return x, r, linear(GCM).simulate(x=x, r=r)["y"]


@torch.no_grad()
def toy_evidence() -> Tensor:
    """By Bayes' rule at one z: log p(y|z) + log p(z) - log p(z|y)."""
    (x, r, y), model = toy_rows(), linear(GCM)
    z = torch.zeros(ROWS, DIMENSIONS).double()
    prior = model.z_prior(model.x_standardizer(x)).log_prob(z)
    mean, covariance = posterior_of(model, x, r, y)
    posterior = dist.MultivariateNormal(mean, covariance).log_prob(z)
    return model.log_likelihood(x, r, y, sites={"z": z[None]})[0] + prior - posterior


def test_exact_guide_gives_the_evidence_and_equal_weights() -> None:
    table = importance_diagnostics(toy(), *toy_rows(), num_particles=100)
    assert list(table.columns) == ["log_evidence", "ess", "pareto_k"]
    np.testing.assert_allclose(table["log_evidence"], toy_evidence(), rtol=1e-10)
    np.testing.assert_allclose(table["ess"], 100.0, rtol=1e-10)
    assert (table["pareto_k"] == -math.inf).all()


def test_wide_guide_has_the_effective_sample_size_of_its_closed_form() -> None:
    spread, particles = 1.5, 20_000
    table = importance_diagnostics(toy(spread), *toy_rows(), num_particles=particles)
    np.testing.assert_allclose(table["log_evidence"], toy_evidence(), atol=0.03)
    # E w = 1 and E w^2 = (s^2 / sqrt(2 s^2 - 1))^d for a normal guide s times as wide.
    ess = particles * (math.sqrt(2.0 * spread**2 - 1.0) / spread**2) ** DIMENSIONS
    np.testing.assert_allclose(table["ess"], ess, rtol=0.03)
    assert (table["pareto_k"] < 0.0).all()  # the weights have a bound


def test_bound_of_one_particle_is_the_evidence_less_the_divergence() -> None:
    spread = 1.5
    table = bound_by_particles(toy(spread), *toy_rows()).set_index("num_particles")
    assert table.index.tolist() == [2**i for i in range(11)]
    evidence = float(toy_evidence().mean())
    divergence = DIMENSIONS * ((spread**2 - 1.0) / 2.0 - math.log(spread))
    for count, expected in ((1, evidence - divergence), (1024, evidence)):
        error = abs(table.loc[count, "bound"] - expected)
        assert error < 3.5 * table.loc[count, "standard_error"] + 1e-4
    assert (table["bound"].diff().dropna() > -1e-3).all()
    # For large N the gap is Var(w) / (2 N), with E w^2 as above.
    variance = (spread**2 / math.sqrt(2.0 * spread**2 - 1.0)) ** DIMENSIONS - 1.0
    gap = evidence - table.loc[32, "bound"]
    assert gap == pytest.approx(variance / 64.0, abs=4.0 * table.loc[32, "standard_error"])
    # Numbers of particles need not divide one another.
    table = bound_by_particles(toy(spread), *toy_rows(), num_particles=[100, 7, 7])
    assert table["num_particles"].tolist() == [7, 100]
    single = bound_by_particles(toy(spread), *toy_rows(), num_particles=[1])
    assert single["standard_error"].isna().all()


def test_standard_error_is_the_spread_over_seeds() -> None:
    options: dict[str, Any] = {"num_particles": (1, 8, 64), "progress": False}
    tables = [bound_by_particles(toy(1.5), *toy_rows(), **options, seed=s) for s in range(60)]
    spread = np.std([table["bound"] for table in tables], axis=0)
    claimed = np.mean([table["standard_error"] for table in tables], axis=0)
    np.testing.assert_allclose(claimed, spread, rtol=0.3)  # 60 seeds: 9 % each


@pytest.mark.parametrize("function", [importance_diagnostics, bound_by_particles])
def test_nothing_is_left_changed_and_the_seed_decides(function: Any) -> None:
    model, store = toy(1.3).train(), dict(pyro.get_param_store())
    state = torch.get_rng_state()
    first = function(model, *toy_rows(), seed=3, batch_size=7)
    assert torch.equal(torch.get_rng_state(), state)
    assert dict(pyro.get_param_store()) == store
    assert model.training
    assert first.equals(function(model, *toy_rows(), seed=3, batch_size=7))
    assert not first.equals(function(model, *toy_rows(), seed=4, batch_size=7))


def test_rows_without_weight_do_not_spoil_the_others() -> None:
    class Impossible(GCM):
        def story(self, sample: Any, x: Tensor, r: Tensor, y: Tensor) -> Any:
            z = sample("z", lambda: self.z_dist(x))
            loc = torch.where(x[:, 0] > 9.0, math.inf, 0.0)
            sample("never", lambda: dist.Normal(loc, 1.0, validate_args=False), obs=x[:, 1])
            c = sample("c", lambda: self.c_dist(z, x))
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    data = rows(ROWS), revenues(ROWS), torch.ones(ROWS)
    data[0][1] = 10.0
    table = importance_diagnostics(Impossible(2, 1), *data, num_particles=50)
    assert table.loc[1].tolist() == [-math.inf, 0.0, math.inf]
    assert np.isfinite(table["log_evidence"].drop(1)).all()
    bounds = bound_by_particles(Impossible(2, 1), *data, num_particles=(1, 4))
    assert (bounds["bound"] == -math.inf).all()
    assert bounds["standard_error"].isna().all()


SIXTY = zoo.rows(count=60).map(Tensor.float)[:3]


def trained(kind: type, objective: str = "conditional", **options: Any) -> Any:
    return zoo.learned(kind, objective=objective, dtype=torch.float32, **options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (GCM, {}),
        (GCM, {"guide": "posterior"}),
        (IGCM, {"response": "continuous"}),
        (IGCM, {"kernel_guide": zoo.posterior_of_kernel}),
        (IGCM, {"prior": "categorical"}),  # z summed out, k drawn
    ],
)
def test_evidence_is_the_log_probability_of_the_model(kind: Any, options: dict[str, Any]) -> None:
    model = trained(kind, **options)
    rows = zoo.rows(options.get("response", "binary"), 60).map(Tensor.float)[:3]
    table = importance_diagnostics(model, *rows, num_particles=1500)
    assert 15.0 < table["ess"].min() < 1450.0
    exact = model.log_prob(*rows, num_samples=4096)
    # Standard error of a log-mean: sqrt(1/ess - 1/N).
    error = np.sqrt(1.0 / table["ess"] - 1.0 / 1500.0)
    z = (table["log_evidence"] - exact.numpy()) / (error + 1e-3)
    assert z.abs().max() < 4.0
    assert z.abs().mean() < 1.2


def test_categorical_latent_is_summed_out() -> None:
    for kind, options in ((GCM, {}), (IGCM, {"k_dim": 1})):
        model = trained(kind, prior="categorical", z_dim=3, **options)
        exact = model.log_prob(*SIXTY).numpy()
        table = importance_diagnostics(model, *SIXTY, num_particles=50)
        np.testing.assert_allclose(table["log_evidence"], exact, atol=1e-5)
        np.testing.assert_allclose(table["ess"], 50.0)
        assert (table["pareto_k"] == -math.inf).all()
        bounds = bound_by_particles(model, *SIXTY, num_particles=(1, 16))
        np.testing.assert_allclose(bounds["bound"], exact.mean(), atol=1e-5)
        np.testing.assert_allclose(bounds["standard_error"], 0.0, atol=1e-7)


@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_evidence_is_of_the_objective_the_model_was_trained_for(kind: Any) -> None:
    """p(x, r, y), whose ratio over y = 0 and 1 is p(y | x, r)."""
    model = trained(kind, "joint", prior="standard")
    x, r, _ = SIXTY
    zero, one = (
        importance_diagnostics(model, x, r, torch.full((60,), y), num_particles=4000)
        for y in (0.0, 1.0)
    )
    assert zero["log_evidence"].mean() < -2.0  # the density of r is in it
    log_odds = torch.tensor((one["log_evidence"] - zero["log_evidence"]).to_numpy())
    predicted = model.predict(x, r, num_samples=8192).double()
    torch.testing.assert_close(torch.sigmoid(log_odds), predicted, atol=0.04, rtol=0.0)


def test_a_loss_that_is_no_bound_is_refused() -> None:
    for function in (importance_diagnostics, bound_by_particles):
        model = IGCM(3, 2, kernel_guide="amortised")
        model.objective = "paper"
        with pytest.raises(ValueError, match="objective='paper' has a loss that is no bound"):
            function(model, *SIXTY)
        options = {"num_particles": 30 if function is importance_diagnostics else (1, 2)}
        assert len(function(model, *SIXTY, objective="conditional", **options)) > 0


def test_wrong_numbers_of_particles_are_refused() -> None:
    with pytest.raises(ValueError, match="num_particles must be an integer of at least 30, got 29"):
        importance_diagnostics(toy(), *toy_rows(), num_particles=29)
    for counts in ((1, 0), (1, 2.5)):
        with pytest.raises(ValueError, match="num_particles must be"):
            bound_by_particles(toy(), *toy_rows(), num_particles=counts)


def calibration(shift: float = 0.0, spread: float = 1.0) -> SBCResult:
    model = linear(GCM)
    model.z_guide = OfKnownPosterior(shift, spread)
    sampler = partial(guide_draws, model)
    return simulation_based_calibration(
        model, rows(COUNT), revenues(COUNT), sampler=sampler, progress=False
    )


def test_a_shifted_guide_is_asymmetric_and_a_narrow_one_uneven() -> None:
    right, shifted, narrow = calibration(), calibration(shift=0.3), calibration(spread=0.7)
    assert min(right.symmetry_p_values().min(), right.p_value()) > 1e-3
    assert (shifted.symmetry_p_values()[["z[0]", "z[1]"]] < 1e-6).all()
    assert (narrow.p_values()[["z[0]", "z[1]"]] < 1e-6).all()
    assert (narrow.symmetry_p_values()[["z[0]", "z[1]"]] > 1e-3).all()


def test_symmetric_ranks_have_uniform_p_values() -> None:
    """But for ties, which make the test milder; that of two samples refuses a sixth at 5 %."""
    generator = np.random.default_rng(0)
    for num_draws in (99, 100):
        places = generator.beta(0.5, 0.5, (300, 1500))  # symmetric, and far from even
        ranks = pd.DataFrame(np.floor(places * (num_draws + 1)).astype(int))
        p_values = SBCResult(ranks, num_draws).symmetry_p_values()
        for level in (0.05, 0.2, 0.5):
            error = 4.0 * np.sqrt(level * (1.0 - level) / 1500)
            assert 0.6 * level < (p_values < level).mean() < level + error
        mirrored = SBCResult(num_draws - ranks, num_draws).symmetry_p_values()
        assert np.allclose(p_values, mirrored)
    tied = pd.DataFrame({"z[0]": np.arange(100), "y": np.arange(100)})
    p_values = SBCResult(tied, 99, frozenset(["y"])).symmetry_p_values()
    assert p_values["z[0]"] == 1.0
    assert np.isnan(p_values["y"])


KINDS = ["plain", "posterior flow", "implicit", "implicit, one kernel", "implicit, paper", "joint"]


def test_costs_agree_with_y_and_sites_are_those_of_the_posterior() -> None:
    for kind in KINDS:
        model, data = zoo.with_units(kind), zoo.rows_of(kind, 20)
        draws = guide_draws(model, *data[:3], num_samples=30, seed=1)
        exact = model.cost_posterior(*data[:3], num_samples=30, progress=False)
        assert set(exact) <= set(draws), kind
        assert all(draws[name].shape == exact[name].shape for name in exact)
        for found in (draws, exact):
            revenue = model.kernel_map(found["k"]) if isinstance(model, IGCM) else data.r
            assert ((found["c"] < revenue).all(-1) == (data.y == 1.0)).all(), kind
        again = guide_draws(model, *data[:3], num_samples=30, seed=1)
        assert all(torch.equal(again[name], draws[name]) for name in draws), kind


def test_a_kernel_in_closed_form_is_drawn_given_y() -> None:
    """k of one coordinate is integrated out in training, and no site of the guide."""
    model, data = zoo.with_units("implicit, one kernel"), zoo.rows_of("implicit, one kernel", 6)
    ours = guide_draws(model, *data[:3], num_samples=20_000)["k"]
    exact = model.cost_posterior(*data[:3], num_samples=20_000, progress=False)["k"]
    moved = model.kernel(data.x, data.r).base_dist.loc
    gap = (ours.mean(0) - exact.mean(0)).abs()
    assert (gap < 0.3 * (exact.mean(0) - moved).abs() + 0.03).all()


def test_a_model_without_a_guide_is_refused() -> None:
    data = zoo.rows_of("members", 5)
    with pytest.raises(ValueError, match="needs a model with a guide: this one sums z out"):
        guide_draws(zoo.with_units("members"), *data[:3])
