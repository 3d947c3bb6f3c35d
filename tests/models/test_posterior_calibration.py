"""Posterior draws are calibrated: simulation-based calibration with the default sampler."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd
import pytest
import torch
import zoo
from posterior_toys import Case, WideKernel, informative, linear_rows, rows
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.diagnostics import SBCResult, simulation_based_calibration

#: A few rows of some thousand have a Pareto k above 0.7 by chance.
pytestmark = pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")
COUNT = 600

CASES: dict[str, Case] = {
    "plain": Case(GCM, {}),
    "guided": Case(GCM, {"guide": "posterior"}, asked={"method": "importance"}),
    "alternatives, infinite": Case(GCM, {"alternatives": 2, "costs": 2, "p0": "conditional"}),
    "categorical": Case(GCM, {"prior": "categorical", "z_dim": 4}),
    "continuous": Case(GCM, {"response": "continuous"}),
    "implicit, k integrated": Case(IGCM, {"k_dim": 1}),
    "implicit, k drawn": Case(IGCM, {"alternatives": 2, "costs": 2}),
    "implicit, laplace kernel": Case(
        IGCM, {"kernel_prior": zoo.laplace_kernel, "kernel_guide": WideKernel}
    ),
}
WHOLE_PROGRAM = "whole program"


@functools.cache
def model_of(case: str) -> Any:
    kind, options, objective, _ = CASES[case]
    model = informative(kind, objective, factor=2.0, num_samples=128, **options)
    with torch.no_grad():  # costs that z all but decides, so that y says much of it
        last = model.cost_net.net[-1]
        loc, scale = last.weight.chunk(2)[0], last.bias.chunk(2)[1]
        loc.mul_(1.5)
        scale.sub_(2.0)
    return model


def calibration(case: str, sampler: Any = None, count: int = COUNT, **options: Any) -> SBCResult:
    model, (x, r, _) = model_of(case), rows(count, seed=9)
    return simulation_based_calibration(
        model,
        x,
        None if isinstance(model, IGCM) else r,
        sampler=sampler,
        progress=False,
        **{"seed": 1, **options},
    )


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("case", [*CASES, WHOLE_PROGRAM])
def test_default_draws_pass(case: str) -> None:
    if case == WHOLE_PROGRAM:
        model, _ = linear_rows(missing=False)
        result = simulation_based_calibration(model, size=COUNT, progress=False, seed=1)
    else:
        asked = CASES[case].asked
        options = {"units": "standard", "progress": False, **asked}
        sampler = functools.partial(model_of(case).cost_posterior, **options)
        result = calibration(case, sampler if asked else None)
    assert result.p_values().min() >= 1e-3, result


# What is wrong is found


def ignoring_y(model: Any, x: Tensor, r: Tensor, y: Tensor, **options: Any) -> dict[str, Tensor]:
    return dict(
        model.posterior(x, r, units="standard", progress=False, **options).only("z", "k", "c")
    )


def spread(
    model: Any, site: str, factor: float, x: Tensor, r: Tensor, y: Tensor, **options: Any
) -> dict[str, Tensor]:
    """A site `factor` times as wide around its mean."""
    draws = dict(model.cost_posterior(x, r, y, units="standard", progress=False, **options))
    mean = draws[site].mean(0)
    draws[site] = mean + factor * (draws[site] - mean)
    return draws


def p_values(case: str, sampler: Any, count: int = COUNT) -> pd.Series:
    return calibration(case, functools.partial(sampler, model_of(case)), count).p_values()


@pytest.mark.long
@pytest.mark.parametrize(
    "case", ["plain", "alternatives, infinite", "continuous", "implicit, k drawn"]
)
def test_draws_that_ignore_y_fail(case: str) -> None:
    found = p_values(case, ignoring_y, count=1000)
    assert found.filter(regex=r"log p\(y\|z, [rk]\)").max() < 1e-6
    # y is news of z, but on average over y the prior is the posterior.
    assert found.filter(regex="^z").min() > 1e-3


@pytest.mark.long(keep=2)
@pytest.mark.parametrize(
    ("case", "site", "factor", "highest"),
    [
        ("plain", "z", 1.3, 1e-3),
        ("plain", "z", 1.0 / 1.3, 1e-3),
        ("continuous", "z", 1.3, 1e-3),
        ("implicit, k drawn", "z", 1.3, 1e-3),
        ("plain", "c", 1.3, 1e-4),
        ("implicit, k integrated", "c", 1.3, 1e-4),
    ],
)
def test_draws_of_a_wrong_scale_fail(case: str, site: str, factor: float, highest: float) -> None:
    def sampler(model: Any, *data: Tensor, **options: Any) -> dict[str, Tensor]:
        return spread(model, site, factor, *data, **options)

    assert p_values(case, sampler).filter(regex=f"^{site}").max() < highest
