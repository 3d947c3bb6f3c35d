"""Tempering scales the log-densities of some sites, and cures the paper's literal loss."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import Trace_ELBO
from torch import Tensor
from training_cases import QUICK, Rows
from training_runs import same, weights

from pyro_gcm import GCM, fit
from pyro_gcm.inference import temper
from pyro_gcm.training import FitSettings


def program() -> Tensor:
    z = pyro.sample("z", dist.Normal(0.0, 1.0))
    w = pyro.sample("w", dist.Normal(z, 2.0))
    return pyro.sample("y", dist.Normal(w, 1.0), obs=torch.tensor(0.3))


def densities(run: object) -> dict[str, Tensor]:
    values = {"z": torch.tensor(0.4), "w": torch.tensor(-1.0)}
    trace = poutine.trace(poutine.condition(run, values)).get_trace()
    trace.compute_log_prob()
    return {name: trace.nodes[name]["log_prob"] for name in ("z", "w", "y")}


@pytest.mark.parametrize("sites", [("z",), ("w",), ("z", "w")], ids=str)
def test_named_sites_are_scaled_and_others_are_not(sites: tuple[str, ...]) -> None:
    plain, tempered = densities(program), densities(temper(program, 0.1, sites=sites))
    for name, log_p in plain.items():
        torch.testing.assert_close(tempered[name], log_p * (0.1 if name in sites else 1.0))


def test_scales_multiply() -> None:
    twice = poutine.scale(temper(program, 0.1), scale=0.5)
    assert densities(twice)["z"].item() == pytest.approx(0.05 * densities(program)["z"].item())


def test_temperature_of_fit_is_temper_around_both_sides(toy: Rows) -> None:
    models = [GCM(3, 2, guide="posterior") for _ in range(3)]
    bound: Any = {**QUICK, "elbo": Trace_ELBO(4, max_plate_nesting=1)}
    fit(models[0], *toy, **bound, settings=FitSettings(temperature=0.2))
    fit(models[1], *toy, **bound)
    plain = models[2].training_pair

    def tempered(objective: str) -> object:
        pair = plain(objective)
        sides = {side: temper(getattr(pair, side), 0.2) for side in ("program", "guide")}
        return pair._replace(**sides)

    models[2].training_pair = tempered  # type: ignore[method-assign, assignment]
    fit(models[2], *toy, **bound)
    assert same(weights(models[0]), weights(models[2]))
    assert not same(weights(models[0]), weights(models[1]))


def test_temperature_is_refused_where_it_would_cancel(toy: Rows) -> None:
    with pytest.raises(ValueError, match="temperature has no effect where the guide draws z from"):
        fit(GCM(3, 2), *toy, **QUICK, settings=FitSettings(temperature=0.2))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), "half"])
def test_factor_that_is_not_positive_is_refused(scale: object, toy: Rows) -> None:
    with pytest.raises(ValueError, match="scale must be a number above 0"):
        temper(program, scale)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temperature must be a number above 0"):
        fit(GCM(3, 2), *toy, settings=FitSettings(temperature=scale))  # type: ignore[arg-type]


def test_exact_sums_are_not_tempered(toy: Rows) -> None:
    with pytest.raises(ValueError, match="temperature must be 1 for this objective and prior"):
        fit(GCM(3, 2, prior="categorical"), *toy, **QUICK, settings=FitSettings(temperature=0.5))


# The literal loss cannot learn from x (a toy), and the default prior can


@pytest.mark.parametrize("cure", [None, "conditional prior", "temperature"])
def test_the_literal_loss_of_the_paper_learns_nothing_from_x(cure: str | None) -> None:
    """y follows x, and r hardly matters."""
    g, parts = torch.Generator().manual_seed(0), []
    for n in (400, 2000):
        x, r = torch.randn(n, 2, generator=g), torch.rand(n, 1, generator=g)
        margin = 3.0 * x[:, 0] + 0.8 * (2.0 * r[:, 0] - 1.0) + 0.3 * torch.randn(n, generator=g)
        parts.append(Rows(x, r, (margin > 0).float()))
    prior = "conditional" if cure == "conditional prior" else "standard"
    model, (train, test) = GCM(2, 1, prior=prior, num_samples=64), parts
    own = FitSettings(temperature=0.1 if cure == "temperature" else 1.0)
    options: Any = {"epochs": 30, "batch_size": 100, "num_particles": 8, "learning_rate": 0.03}
    told = pytest.warns(UserWarning, match="literal loss: its optimum ignores x")
    with nullcontext() if cure else told as caught:  # any other warning is an error
        fit(model, *train, **options, settings=own, progress=False)
    accuracy = ((model.predict(test.x, test.r) > 0.5).float() == test.y).float().mean()
    if cure:
        assert accuracy > 0.92
    else:
        by_r_alone = ((test.r[:, 0] > 0.5).float() == test.y).float().mean()
        assert accuracy < by_r_alone + 0.04 < 0.61
        assert len(caught) == 1
