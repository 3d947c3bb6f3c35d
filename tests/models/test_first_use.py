"""A model warns once that it has not been fitted, or has not learned the units of its data."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import conditional

UNFITTED = "has not been fitted: its predictions are those of its initial weights"
UNITS = "has not learned their units: call model.learn_units"


def rows(scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    x, r = torch.randn(40, 3), torch.randn(40, 2)
    return scale * x, scale * r, (r[:, 0] > 0).float()


def messages(call: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught]


def svi(model: Any, x: Tensor, r: Tensor, y: Tensor) -> None:
    adam = pyro.optim.Adam({"lr": 0.01})
    SVI(conditional(model.model), model.guide, adam, Trace_ELBO()).step(x, r, y)


def test_predictions_of_a_fresh_model_warn_once() -> None:
    x, r, _ = rows()
    for model in (GCM(3, 2), IGCM(3, 2)):
        assert [UNFITTED in text for text in messages(lambda m=model: m.predict(x, r))] == [True]
        assert messages(lambda m=model: m.surface(x, r)) == []


def test_columns_that_look_exchanged_are_told() -> None:
    x, r, y = rows()
    x = 300.0 + 20.0 * x[:, :2]
    for new, exchanged in (((x, r), 0), ((r, x), 1), ((10.0 * x, 10.0 * r), 0)):
        fit(model := GCM(2, 2), x, r, y, epochs=1, progress=False)
        told = messages(lambda m=model, new=new: m.predict(*new))
        assert sum("x and r look exchanged" in text for text in told) == len(told) == exchanged


def test_a_model_that_has_learned_something_predicts_without_a_warning() -> None:
    x, r, _ = rows()
    for learn in (
        lambda m: fit(m, *rows(), epochs=1, standardize=False, progress=False),
        lambda m: svi(m, *rows()),
        lambda m: m.load_state_dict(GCM(3, 2).state_dict()),
        lambda m: m.learn_units(*rows()),
    ):
        learn(model := GCM(3, 2))
        for one in (model, copy.deepcopy(model)):
            assert messages(lambda one=one: one.predict(x, r)) == []


@pytest.mark.parametrize("checks", [True, False])
def test_svi_on_data_that_are_not_standardised_asks_once_for_units(checks: bool) -> None:
    """And counts as training, whether or not Pyro validates."""
    model, data = GCM(3, 2), rows(scale=50.0)
    with pyro.validation_enabled(checks):
        found = messages(lambda: svi(model, *data))
        assert [UNITS in text for text in found] == [True, True]  # of x and of r
        assert messages(lambda: svi(model, *data)) == []
    assert messages(lambda: model.predict(*data[:2])) == []


def test_warnings_point_at_the_line_of_the_user() -> None:
    for call in (
        lambda m, x, r: m.predict(x, r),
        lambda m, x, r: m.cost_posterior(x, r, (r[:, 0] > 9).float(), progress=False),
        lambda m, x, r: svi(m, 50 * x, r, (r[:, 0] > 0).float()),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(GCM(3, 2), *rows()[:2])
        assert {one.filename for one in caught} == {__file__}


def test_units_are_not_asked_for_where_they_are_known_or_not_needed() -> None:
    data = rows(scale=50.0)
    assert messages(lambda: svi(GCM(3, 2), *rows())) == []
    learned = GCM(3, 2)
    learned.learn_units(*data)
    assert messages(lambda: svi(learned, *data)) == []
    assert messages(lambda: fit(GCM(3, 2), *data, epochs=1, progress=False)) == []
