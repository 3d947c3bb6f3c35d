"""Several responses that share z: one program, and what one of them tells of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, fit, load, save, to_arviz
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.diagnostics import simulation_based_calibration
from pyro_gcm.models.axis_responses import WholeDistribution
from pyro_gcm.models.guessed import Guessed
from pyro_gcm.models.ordinal import Ordinal
from pyro_gcm.models.responses import Binary, Continuous
from pyro_gcm.models.several import Several
from pyro_gcm.models.survival import Survival
from pyro_gcm.nets import PositiveLinear

PRIORS: dict[str, dict[str, Any]] = {
    "sampled": {"z_dim": 2, "hidden": 8},
    "members": {"prior": "members", "members": 3, "hidden": 8},
    "alternatives": {"alternatives": 2, "costs": 2, "prior": "categorical", "hidden": 8},
}
priors = pytest.mark.parametrize("prior", PRIORS)
DIRECTIONS = {"late": [1, 1], "months": [1, 0], "grade": [-1, 1]}


def several() -> Several:
    parts = {"late": Binary(), "months": Survival(knots=2), "grade": Ordinal(levels=3)}
    return Several(parts, DIRECTIONS)


def rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor, dict[str, Any]]:
    g = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(count, d, generator=g, dtype=torch.float64) for d in (3, 2))
    shared = torch.randn(count, generator=g, dtype=torch.float64)  # seen by no column
    score = x[:, 0] + 2.0 * shared
    time = (-0.5 * (score + r[:, 0])).exp()
    return (
        x,
        r,
        {
            "late": (score + r.sum(1) > 0.0).double(),
            "months": SurvivalTimes.right_censored(time.clamp(max=1.5), time <= 1.5),
            "grade": torch.bucketize(score - r[:, 0] + r[:, 1], torch.tensor([-1.0, 1.0]).double()),
        },
    )


def model_of(prior: str) -> GCM:
    model = GCM(3, 2, response=several(), seed=4, **PRIORS[prior]).double()
    model.learn_units(*rows(300))
    return model


@pytest.mark.long(keep=1)
@priors
def test_the_likelihood_is_the_product_given_z_and_steps_are_those_of_pyro(prior: str) -> None:
    model, (x, r, y) = model_of(prior), rows(200, 1)
    result = fit(model, x, r, y, epochs=2, batch_size=100, num_particles=4, progress=False)
    assert result.engine == "plain", result.engine_reason
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
    assert (months.predict_survival(x, r, [0.5, 1.0]).diff(dim=1) <= 0.0).all()
    assert model.response_model("grade").class_probabilities(x, r).shape == (60, 3)
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


@pytest.mark.long(keep=0)
@priors
def test_posteriors_are_calibrated(prior: str) -> None:
    model, (x, r, _) = model_of(prior), rows(400, 5)
    result = simulation_based_calibration(model, x, r, num_draws=19, seed=2, progress=False)
    assert result.p_value() > 1e-3, result.p_values()


def test_models_are_the_same_after_saving(tmp_path: Path) -> None:
    model, (x, r, y) = model_of("members"), rows(20, 6)
    save(model, tmp_path / "saved")
    other = load(tmp_path / "saved")
    assert torch.equal(other.log_prob(x, r, y), model.log_prob(x, r, y))
    predictions = [m.response_model("months").predict(x, r) for m in (model, other)]
    assert torch.equal(*predictions)


def test_what_does_not_belong_together_is_refused() -> None:
    x, r, y = rows(20)
    model = model_of("members")
    with pytest.raises(ValueError, match="parts must have two or more responses"):
        Several({"one": Binary()})
    with pytest.raises(ValueError, match="parts must have two or more responses"):
        Several({"one": "binary", "two": "binary"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="directions has"):
        Several({"a": Binary(), "b": Binary()}, {"c": [1]})
    for wrong in ([1], [0, 0]):
        with pytest.raises(ValueError, match=r"directions\['b'\] must have"):
            GCM(3, 2, response=Several({"a": Binary(), "b": Binary()}, {"b": wrong}))
    with pytest.raises(ValueError, match="p0 must be left out"):
        GCM(3, 2, response=several(), p0="constant")
    with pytest.raises(TypeError, match="y must be a mapping with the outcomes"):
        fit(model, x, r, y["late"])
    with pytest.raises(ValueError, match="predict needs one response"):
        model.predict(x, r)
    with pytest.raises(ValueError, match="name must be one of"):
        model.response_model("weeks")
    with pytest.raises(ValueError, match="needs a model of"):
        GCM(3, 2, response=WholeDistribution()).response_model("late")


def test_a_part_predicts_and_the_whole_has_posteriors_and_exports() -> None:
    model, (x, r, y) = model_of("members"), rows(8, 7)
    part = model.response_model("months")
    for call in (
        lambda: part.posterior(x, r, y["months"]),
        lambda: part.sample(x, r),
        lambda: fit(part, x, r, y["months"]),
        lambda: save(part, "a folder"),
    ):
        with pytest.raises(ValueError, match="all responses"):
            call()
    with pytest.raises(ValueError, match=r"predict_survival needs .*'binary'"):
        model.response_model("late").predict_survival(x, r, [1.0])
    draws = model.posterior(x, r, y, num_samples=30, progress=False)
    months = y["months"]
    assert (draws["months.t"] >= months.lower * (1.0 - 1e-6)).all()
    data = to_arviz(model, x, r, y, num_samples=20, progress=False)
    assert set(data["posterior_predictive"].data_vars) == set(DIRECTIONS)
    late = SurvivalTimes(months.lower, months.upper, 0.5 * months.lower)
    with pytest.raises(ValueError, match="no entries above 0"):
        model.log_prob(x, r, {**y, "months": late})


def test_a_response_belongs_to_one_model() -> None:
    for response in (Survival(), WholeDistribution(), Ordinal(levels=3), several(), Guessed()):
        GCM(3, 2, response=response, hidden=4)
        with pytest.raises(ValueError, match="of its own for every model"):
            GCM(3, 2, response=response, hidden=4)
    twice = Survival()
    with pytest.raises(ValueError, match="of its own for every model"):
        GCM(3, 2, response=Several({"a": twice, "b": twice}))
    with pytest.raises(ValueError, match="revenue_map must be a name"):
        GCM(3, 2, response=several(), revenue_map=PositiveLinear(2, (6,)))
    with pytest.raises(ValueError, match="parts must take"):
        GCM(3, 2, response=Several({"a": Continuous(3), "b": Survival()}), prior="members")
    for directions in ([1, 1], {"a": torch.tensor([1, 1])}, {"a": [0.5, 1]}):
        with pytest.raises((TypeError, ValueError), match="directions"):
            Several({"a": Survival(), "b": Binary()}, directions)  # type: ignore[arg-type]
