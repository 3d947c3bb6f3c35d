"""Joint coverage: right draws pass, and wrong spreads, means and correlations fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from known_posteriors import gaussian_posterior, linear, revenues, rows
from scipy import stats
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.diagnostics import joint_coverage

COUNT, DRAWS = 4000, 99
CORRELATED = torch.tensor([[1.0, 0.0], [0.95, 0.3122]])


def gaussian(seed: int) -> tuple[Tensor, Tensor]:
    """Truths and exact draws given data that say where both lie, but for correlated errors."""
    g = torch.Generator().manual_seed(seed)
    centre = torch.randn(COUNT, 2, generator=g)
    truth, draws = (torch.randn(*s, COUNT, 2, generator=g) for s in ((), (DRAWS,)))
    return centre + truth @ CORRELATED.T, centre + draws @ CORRELATED.T


def test_exact_draws_have_uniform_shares() -> None:
    p_values = [joint_coverage(*gaussian(seed), seed=seed).p_value for seed in range(20)]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    found = joint_coverage(*gaussian(0))
    gap = (found.frame["coverage"] - found.frame["level"]).abs()
    assert (gap < 4.0 * found.frame["standard_error"]).all()
    assert (joint_coverage(*gaussian(0)).shares == found.shares).all()


@pytest.mark.parametrize("wrong", ["narrow", "wide", "biased", "independent"])
def test_wrong_draws_fail(wrong: str) -> None:
    truth, draws = gaussian(1)
    centre = draws.mean(0)
    g = torch.Generator().manual_seed(2)
    made = {
        "narrow": centre + 0.6 * (draws - centre),
        "wide": centre + 1.6 * (draws - centre),
        "biased": draws + 0.7,
        # Each coordinate is right by itself: ranks of one at a time cannot tell.
        "independent": centre + torch.randn(draws.shape, generator=g),
    }[wrong]
    assert joint_coverage(truth, made).p_value < 1e-4
    ranks = (made[..., 1] < truth[:, 1]).float().mean(0)
    assert (stats.kstest(ranks, "uniform").pvalue > 1e-3) == (wrong == "independent")


@pytest.mark.parametrize("spread", [1.0, 1.5])
def test_posteriors_of_a_model_with_a_known_one(spread: float) -> None:
    model, r = linear(GCM), revenues(600)
    drawn = model.simulate(x=rows(600), r=r, seed=100)  # not the seed of the rows
    sites = gaussian_posterior(
        model, drawn["x"], drawn["r"], drawn["y"], num_samples=99, seed=1000, spread=spread
    )
    truth = torch.cat([drawn["z"], drawn["c"]], -1)
    found = joint_coverage(truth, torch.cat([sites["z"], sites["c"]], -1))
    assert (found.p_value > 1e-3) == (spread == 1.0)


@pytest.mark.parametrize(
    ("truth", "draws", "message"),
    [
        (np.zeros((30, 2)), np.zeros((9, 30, 3)), r"got \(30, 2\) and \(9, 30, 3\)"),
        (np.zeros((5, 2)), np.zeros((9, 5, 2)), "at least 20 simulations, got 5"),
        (np.zeros((30, 1)), np.full((9, 30, 1), np.nan), "truth and draws must be finite"),
    ],
)
def test_wrong_input_is_named(truth: Any, draws: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        joint_coverage(truth, draws)
