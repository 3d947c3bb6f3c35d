"""Several responses that share z: one program, and what one of them tells of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, fit, load, save, to_arviz
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import (
    Binary,
    Ordinal,
    Several,
    Survival,
    WholeDistribution,
)

PRIORS: dict[str, dict[str, Any]] = {
    "sampled": {"z_dim": 2, "hidden": 8},
    "members": {"members": 3, "hidden": 8},
    "alternatives": {"alternatives": 2, "costs": 2, "prior": "categorical", "hidden": 8},
}
priors = pytest.mark.parametrize("prior", PRIORS)
DIRECTIONS = {"late": [1, 1], "months": [1, 0], "grade": [-1, 1]}


def several() -> Several:
    parts = {"late": Binary(), "months": Survival(knots=2), "grade": Ordinal(levels=4)}
    return Several(parts, DIRECTIONS)


def rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Rows of the zoo, whose responses share what no column shows."""
    kinds = {"late": "binary", "months": "survival", "grade": "ordinal"}
    made = {name: zoo.rows(kind, count, seed) for name, kind in kinds.items()}
    return *made["late"][:2], {name: one.y for name, one in made.items()}


def model_of(prior: str) -> GCM:
    kind = MemberGCM if prior == "members" else GCM
    model = kind(3, 2, response=several(), seed=4, **PRIORS[prior]).double()
    model.learn_units(*rows(300))
    return model


@pytest.mark.long(keep=1)
@priors
def test_the_likelihood_is_the_product_given_z_and_steps_are_those_of_pyro(prior: str) -> None:
    model, (x, r, y) = model_of(prior), rows(200, 1)
    fit(model, x, r, y, epochs=2, batch_size=100, num_particles=4, progress=False)
    if prior == "members":
        every = torch.eye(3).double()[:, None].expand(-1, 200, -1)
        whole = model.log_likelihood(x, r, y, sites={"z": every})
        parts = [
            model.response_model(name).log_likelihood(x, r, y[name], sites={"z": every})
            for name in DIRECTIONS
        ]
        torch.testing.assert_close(whole, sum(parts), rtol=1e-10, atol=1e-10)


@pytest.mark.long(keep=1)
@priors
def test_each_response_has_directions_of_its_own(prior: str) -> None:
    model, (x, r, _) = model_of(prior), rows(60, 2)
    for name, signs in DIRECTIONS.items():
        part = model.response_model(name)
        at = part.predict(x, r)
        for column, sign in enumerate(signs):
            step = torch.zeros(2).double()
            step[column] = 0.3
            moved = part.predict(x, r + step) - at
            assert (moved * sign >= 0.0).all()
            assert ((moved != 0.0).any()) == (sign != 0)
    months = model.response_model("months")
    assert (months.predictive(x, r).survival([0.5, 1.0]).diff(dim=1) <= 0.0).all()
    assert model.response_model("grade").predictive(x, r).probabilities().shape == (60, 4)
    with pytest.raises(ValueError, match="revenue 0 must be one in which the prediction rises"):
        model.response_model("grade").required_revenue(x, 1.0, revenue=0)
    assert months.required_revenue(x, 0.5, revenue=0).shape == (60,)


def test_one_response_informs_the_others() -> None:
    model, (x, r, y) = GCM(3, 2, response=several(), z_dim=2, seed=1), rows(800, 3)
    fit(model, x, r, y, epochs=15, batch_size=128, progress=False)
    x, r, y = rows(300, 4)
    alone = sum(model.response_model(name).log_prob(x, r, y[name]) for name in DIRECTIONS)
    # They share something that x does not tell: together they are likelier than apart.
    assert float((model.log_prob(x, r, y) - alone).mean()) > 0.1


def test_calls_that_need_one_response_or_all_are_refused() -> None:
    model, (x, r, y) = model_of("members"), rows(8, 7)
    part, months = model.response_model("months"), y["months"]
    late = SurvivalTimes(months.lower, months.upper, 0.5 * months.lower)
    distribution = GCM(3, 2, response=WholeDistribution())
    for call, message in (
        (lambda: fit(model, x, r, y["late"]), "y must be a mapping with the outcomes"),
        (lambda: model.predict(x, r), "predict needs one response"),
        (lambda: Several({}), "parts must have a response by name"),
        (lambda: model.response_model("weeks"), "name must be one of"),
        (lambda: distribution.response_model("late"), "needs a model of"),
        (lambda: part.posterior(x, r, months), "all responses"),
        (lambda: part.predictive(x, r).sample(), "all responses"),
        (lambda: fit(part, x, r, months), "all responses"),
        (lambda: save(part, "a folder"), "all responses"),
        (
            lambda: model.response_model("late").predictive(x, r).survival([1.0]),
            "no attribute 'survival'",
        ),
        (lambda: model.log_prob(x, r, {**y, "months": late}), "no entries above 0"),
    ):
        with pytest.raises((AttributeError, TypeError, ValueError), match=message):
            call()


def test_posteriors_exports_and_saved_models_have_all_responses(tmp_path: Path) -> None:
    model, (x, r, y) = model_of("members"), rows(8, 7)
    other = load(save(model, tmp_path / "saved"))
    assert torch.equal(other.log_prob(x, r, y), model.log_prob(x, r, y))
    predictions = [m.response_model("months").predict(x, r) for m in (model, other)]
    assert torch.equal(*predictions)
    draws = model.posterior(x, r, y, num_samples=30, progress=False)
    assert (draws["months.t"] >= y["months"].lower * (1.0 - 1e-6)).all()
    assert (draws["months.t"] <= y["months"].upper * (1.0 + 1e-6)).all()
    data = to_arviz(model, x, r, y, num_samples=20, progress=False)
    assert set(data["posterior_predictive"].data_vars) == set(DIRECTIONS)
