"""Tempering scales the log-densities of some sites, in a program and in its guide."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from torch import Tensor
from toy_rows import QUICK, Rows, same, weights

from pyro_gcm import GCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO, conditional, temper


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


def test_tempered_weights_count_the_prior_and_the_guide_less(toy: Rows) -> None:
    model = GCM(3, 2, prior="standard").double()
    pair = conditional(model.model), model.guide
    bound = ImportanceWeightedELBO(5, max_plate_nesting=1)
    rows = [column.double() for column in toy]

    def log_weights(scale: float) -> Tensor:
        torch.manual_seed(0)
        return bound.log_weights(*(temper(side, scale) for side in pair), *rows)

    full, half, none = log_weights(1.0), log_weights(0.5), log_weights(1e-9)
    torch.testing.assert_close(half - none, 0.5 * (full - none), rtol=1e-6, atol=1e-6)
    assert (full - none).abs().max() > 0.1


def test_temperature_of_fit_is_temper_around_both_sides(toy: Rows) -> None:
    models = [GCM(3, 2, guide="posterior") for _ in range(3)]
    fit(models[0], *toy, **QUICK, temperature=0.2, engine="pyro")
    fit(models[1], *toy, **QUICK)
    plain = models[2].training_pair

    def tempered(objective: str) -> object:
        pair = plain(objective)
        sides = {side: temper(getattr(pair, side), 0.2) for side in ("program", "guide")}
        return pair._replace(**sides)

    models[2].training_pair = tempered  # type: ignore[method-assign, assignment]
    fit(models[2], *toy, **QUICK)
    assert same(weights(models[0]), weights(models[2]))
    assert not same(weights(models[0]), weights(models[1]))


def test_temperature_is_refused_where_it_would_cancel(toy: Rows) -> None:
    with pytest.raises(ValueError, match="temperature has no effect where the guide draws z from"):
        fit(GCM(3, 2), *toy, **QUICK, temperature=0.2)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), "half"])
def test_factor_that_is_not_positive_is_refused(scale: object, toy: Rows) -> None:
    with pytest.raises(ValueError, match="scale must be a number above 0"):
        temper(program, scale)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temperature must be a number above 0"):
        fit(GCM(3, 2), *toy, temperature=scale)  # type: ignore[arg-type]


def test_exact_sums_are_not_tempered(toy: Rows) -> None:
    with pytest.raises(ValueError, match="temperature must be 1 for this objective and prior"):
        fit(GCM(3, 2, prior="categorical"), *toy, **QUICK, temperature=0.5)
