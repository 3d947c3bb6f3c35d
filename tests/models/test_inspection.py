"""Likelihoods of draws, and the predictions that a surface averages."""

from __future__ import annotations

import pytest
import torch
from posterior_toys import CASES, model_of, rows

from pyro_gcm import GCM, IGCM


def test_likelihood_needs_the_latent_sites() -> None:
    x, r, y = rows(4)[0], rows(4)[1], torch.ones(4)
    with pytest.raises(ValueError, match=r"sites must have draws of z, got \['c'\]"):
        GCM(3, 2).log_likelihood(x, r, y, sites={"c": torch.zeros(5, 4, 2)})
    with pytest.raises(ValueError, match=r"sites must have draws of k, got \['z'\]"):
        IGCM(3, 2).log_likelihood(x, r, y, sites={"z": torch.zeros(5, 4, 4)})


# Predictions before their average


@pytest.mark.parametrize("case", [case for case in CASES if "importance" not in case])
def test_surface_is_the_weighted_mean_of_its_draws(case: str) -> None:
    model, (x, _, _) = model_of(case), rows(9, seed=4)
    if CASES[case].options.get("response") == "quantile":
        revenues = torch.tensor([[0.1], [0.4], [0.9]], dtype=torch.float64)
    else:
        revenues = torch.tensor([[60.0, -0.6], [70.0, -0.5], [85.0, -0.3]], dtype=torch.float64)
    values, weights = model.surface_draws(x, revenues, num_samples=32)
    assert values.shape[1:] == (9, 3)
    mean = values.mean(0)
    if weights is not None:
        assert weights.shape == values.shape
        torch.testing.assert_close(weights.sum(0), torch.ones(9, 3).double())
        mean = (weights * values).sum(0)
    surface = model.surface(x, revenues, num_samples=32)
    torch.testing.assert_close(mean, surface, rtol=1e-9, atol=1e-9)
    joint = model.objective == "joint"
    weighted = joint or case in ("categorical", "mixture")
    assert (weights is not None) == weighted
    if not isinstance(model, IGCM):  # each of them rises, as the mean does
        assert (values.diff(dim=-1) >= 0).all()
    assert values.std(0).max() > 1e-3


def test_surface_draws_take_any_number_of_rows_and_revenues() -> None:
    model = model_of("rejection")
    x, revenues, _ = rows(70, seed=4)
    whole = model.surface_draws(x, revenues[:2], num_samples=8).values
    assert whole.shape == (8, 70, 2)
    for row in (0, 63, 69):
        one = model.surface_draws(x[row : row + 1], revenues[1:2], num_samples=8).values
        assert torch.equal(one, whole[:, row : row + 1, 1:2])
    assert model.surface_draws(x[:2], revenues[:2]).values.shape == (1024, 2, 2)
