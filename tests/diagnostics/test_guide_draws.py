"""Guides as samplers: variational simulation-based calibration finds wrong ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch
import zoo
from known_posteriors import linear, posterior_of, revenues, rows
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM
from pyro_gcm.diagnostics import SBCResult, guide_draws, simulation_based_calibration

COUNT = 1200


class OfKnownPosterior(nn.Module):
    """The posterior of z of `linear(GCM)` as a guide, moved and stretched."""

    def __init__(self, shift: float = 0.0, spread: float = 1.0) -> None:
        super().__init__()
        self.shift, self.spread, self.model = shift, spread, linear(GCM)

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
        mean, covariance = posterior_of(self.model, x, r, y)
        sd = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
        return dist.MultivariateNormal(mean + self.shift * sd, self.spread**2 * covariance)


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


@pytest.mark.parametrize("kind", KINDS)
def test_costs_agree_with_y_and_sites_are_those_of_the_posterior(kind: str) -> None:
    model, data = zoo.with_units(kind), zoo.rows_of(kind, 20)
    draws = guide_draws(model, *data[:3], num_samples=30, seed=1)
    exact = model.cost_posterior(*data[:3], num_samples=30, progress=False)
    assert set(exact) <= set(draws)
    assert all(draws[name].shape == exact[name].shape for name in exact)
    if isinstance(model, IGCM):
        revenue = model.kernel_map(draws["k"])
    else:
        revenue = data.r
    assert ((draws["c"] < revenue).all(-1) == (data.y == 1.0)).all()
    again = guide_draws(model, *data[:3], num_samples=30, seed=1)
    assert all(torch.equal(again[name], draws[name]) for name in draws)


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
