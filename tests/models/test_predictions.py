"""Predictions: the same numbers in every call, close to the integral, in the units of the data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
import zuko
from torch import Tensor, nn

from pyro_gcm import GCM, audit_monotonicity
from pyro_gcm.distributions import OrderEvent

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


def rows(count: int, response: str = "binary", dtype: torch.dtype = torch.float32) -> Any:
    """x [count, 3] and r."""
    return zoo.rows(response, count, seed=count).map(lambda column: column.to(dtype))[:2]


def trained(response: str = "binary", dtype: torch.dtype = torch.float32, **options: Any) -> GCM:
    """A model that no test changes."""
    options = {"num_samples": 128, "hidden": 8, "z_dim": 4, **options}
    model: GCM = zoo.learned(GCM, response, None, dtype, **options)
    return model


def binary_reference(model: GCM, x: Tensor, r: Tensor, draws: int) -> Tensor:
    """Pr(y = 1 | x, r) from so many draws of z, without blocks or grids."""
    q = model.z_prior(model.x_standardizer(x)).base_dist
    z = q.loc + q.scale * model.base_samples(draws)
    event = OrderEvent(model.cost_net(z), model.revenue_map(model.r_standardizer(r)))
    return event.log_probs64()[1].exp().mean(0)


def test_more_samples_change_predictions_little_and_for_the_better() -> None:
    model = trained(dtype=torch.float64, z_dim=2)
    x, r = rows(30, dtype=torch.float64)
    with torch.no_grad():
        wanted = binary_reference(model, x, r, 2**14)
    assert wanted.std() > 0.1
    errors = {n: (model.predict(x, r, num_samples=n) - wanted).abs() for n in (32, 128, 1024)}
    assert torch.equal(model.predict(x, r), model.predict(x, r, num_samples=128))
    assert errors[1024].max() < 1e-3
    assert errors[1024].mean() < 0.5 * errors[128].mean()
    assert errors[128].mean() < 0.5 * errors[32].mean()
    assert errors[128].max() < 0.01


@pytest.mark.parametrize("z_dim", [2, 5])
def test_the_four_components_of_a_mixture_have_as_many_draws_each(z_dim: int) -> None:
    model = trained(prior="mixture", z_dim=z_dim)
    draws = [model.noise(count).count for count in (1, 11, 12, 14)]
    assert draws == [4, 8, 12, 12]


# Inputs


@pytest.mark.parametrize("response", ["binary", "continuous", "quantile"])
def test_revenues_a_million_times_outside_give_finite_predictions(response: str) -> None:
    for dtype, options in itertools.product(
        (torch.float32, torch.float64), ({}, {"alternatives": 2, "costs": 3})
    ):
        model = trained(response, dtype, **options, num_samples=32)
        x, r = rows(40, response, dtype)
        far = (1e-30, 1 - 1e-7) if response == "quantile" else (-2e7, 2e7)
        low, high = (model.predict(x, torch.full_like(r, end)) for end in far)
        assert low.isfinite().all()
        assert high.isfinite().all()
        assert (high > low).all()
        if response == "binary":
            assert (low == 0.0).all()
            assert (high == 1.0).all()
        assert model.predict(1e6 * x, torch.full_like(r, far[0])).isfinite().all()


# Priors of the user


class Prior(nn.Module):
    """x -> a distribution of z around a linear map of x."""

    def __init__(self, build: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.build = nn.Linear(3, 4), build

    def forward(self, x: Tensor) -> Any:
        return self.build(self.linear(x))


def test_base_noise_drives_a_flow_of_zuko() -> None:
    model = GCM(3, 2, prior=Prior(zuko.flows.NSF(4, 4, hidden_features=(8,))))
    x, r = torch.randn(100, 3), torch.randn(100, 2)
    wanted = model.predict(x, r)  # a warning would be an error
    assert torch.equal(model.predict(x[3:4], r[3:4]), wanted[3:4])
    assert (model.predict(x, r + torch.tensor([0.1, 0.0])) > wanted).all()


def test_rows_of_a_prior_that_base_noise_cannot_drive_have_the_same_draws_everywhere() -> None:
    x, r = torch.randn(30, 3), torch.randn(30, 2)
    for kind, build in {
        "VonMises": lambda loc: dist.VonMises(loc, 1.0).to_event(1),
        "Dirichlet": lambda loc: dist.Dirichlet(loc.exp()),
        "ProjectedNormal": dist.ProjectedNormal,
    }.items():
        model = GCM(3, 2, prior=Prior(build), seed=0)
        state = torch.get_rng_state()
        with pytest.warns(UserWarning, match=f"{kind} has neither .* one by one") as warned:
            every = model.predict(x, r)
        assert warned[0].filename == __file__
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(99)
        # Warnings are errors here: the one above is not repeated.
        assert torch.equal(model.predict(x[7:8], r[7:8]), every[7:8])
        assert torch.equal(model.predict(x.flip(0), r.flip(0)).flip(0), every)
        assert torch.equal(model.surface(x[:3], r[:2])[[0, 1], [0, 1]], every[:2])
        assert audit_monotonicity(model, x, r, pairs=60, tolerance=0.0, progress=False).passed
        many = model.predict(x, r, num_samples=512)
        assert (many - every).abs().max() < 0.1


def test_posterior_guide_does_not_enter_a_prediction() -> None:
    class Explosive(nn.Module):
        armed = False

        def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
            assert not self.armed, "a prediction must not read r or y through the guide"
            return dist.Normal(torch.zeros(len(y), 4), 1.0).to_event(1)

    model = GCM(3, 2, guide=Explosive())
    model.z_guide.armed = True
    assert model.predict(*rows(3)).isfinite().all()
