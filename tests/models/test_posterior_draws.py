"""Draws of every site given y are those that brute force keeps, for every kind of model."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from posterior_toys import (
    CASES,
    DIFFERENT,
    Brute,
    asked_rows,
    brute_force,
    linear_rows,
    model_of,
    smallest_p_value,
)

from pyro_gcm import IGCM
from pyro_gcm.prediction.draws import PosteriorDraws

#: The brute force is the judge of the draws.
pytestmark = pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")
COUNT = 3000
BRUTE = 25_000
DRAWS: dict[str, Any] = {"num_samples": COUNT, "progress": False}


@functools.cache
def brute(case: str) -> Brute:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return brute_force(model_of(case), *asked_rows(case), BRUTE)


def draws_of(case: str, given_y: bool = True) -> PosteriorDraws:
    x, r, y = asked_rows(case)
    asked = {**DRAWS, "num_proposals": BRUTE, **(CASES[case].asked if given_y else {})}
    draws: PosteriorDraws = model_of(case).posterior(x, r, y if given_y else None, seed=3, **asked)
    return draws


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("case", CASES)
def test_draws_given_the_outcome_are_those_of_brute_force(case: str) -> None:
    draws = draws_of(case)
    p_value, worst = smallest_p_value(draws, brute(case), brute(case).given_y)
    assert p_value > DIFFERENT, worst
    # The comparison would find draws that did not look at y.
    p_value, _ = smallest_p_value(draws, brute(case), brute(case).before)
    assert p_value < 1e-12
    model = model_of(case)
    kernel = {"k"} if isinstance(model, IGCM) else {"w"} if model.objective == "joint" else set()
    assert set(draws) == {"z", "c", "y"} | kernel
    # Their evidence is the density of the outcome.
    x, r, y = asked_rows(case)
    evidence = draws.log_evidence
    weights = torch.softmax(brute(case).before, 0)
    relative = (brute(case).given_y - brute(case).before - brute(case).log_evidence()).exp()
    error = (weights * (relative - 1.0)).square().sum(0).sqrt()
    assert error.max() < 0.05
    # The draws have an error of about the same size.
    assert ((evidence - brute(case).log_evidence()).abs() < 5.0 * error + 0.01).all()
    many = None if model.enumerates else 16_384
    assert (evidence - model.log_prob(x, r, y, num_samples=many)).abs().max() < 0.03


@pytest.mark.parametrize("proposals", [60, 300, 3000])
def test_draws_are_worth_as_many_independent_ones_as_ess_says(proposals: int) -> None:
    one = (column[:1] for column in asked_rows("rejection"))
    x, r, y = (column.expand(400, *column.shape[1:]) for column in one)
    options: dict[str, Any] = {"num_samples": 200, "method": "importance", "progress": False}
    draws = model_of("rejection").posterior(x, r, y, num_proposals=proposals, **options)
    z = draws["z"]  # [S, rows, D]: rows that are alike, with proposals of their own
    worth = z.flatten(0, 1).var(0) / z.mean(0).var(0)
    assert ((worth / draws.ess.mean() - 1.0).abs() < 0.3).all()


# The whole program


def test_sites_of_the_whole_program_are_those_of_importance_sampling() -> None:
    model, data = linear_rows()
    with torch.random.fork_rng():
        torch.manual_seed(2)
        program = brute_force(model, *data, 150_000)
    draws = model.posterior(*data, seed=5, num_proposals=40_000, **DRAWS)
    sizes = 1.0 / torch.softmax(program.given_y, 0).square().sum(0)
    assert sizes.min() > 400.0
    p_value, worst = smallest_p_value(draws, program, program.given_y)
    assert p_value > DIFFERENT, worst
    assert set(draws) == {"z", "w", "c", "y"}
    assert (draws.log_evidence - program.log_evidence()).abs().max() < 0.1
