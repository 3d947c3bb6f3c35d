"""`fit` trains whatever the caller has switched off, and leaves it switched off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor

import pyro_gcm
from pyro_gcm import GCM, baselines
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMClassifier, GCMRegressor, GCMSurvival
from pyro_gcm.models.members import MemberSettings

STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
}
QUIET: dict[str, Any] = {"epochs": 1, "progress": False}
FAST: dict[str, Any] = {"epochs": 2, "members": 2, "hidden": 8, "monotonic_cst": [0, 1]}


def rows() -> tuple[Tensor, Tensor, Tensor]:
    """Made where they are used: tensors of the inference mode are other ones."""
    x = torch.linspace(-1.0, 1.0, 40)[:, None]
    r = x.flip(0) ** 3
    return x, r, (x + 2.0 * r > 0.0).float()[:, 0]


def _trained(kind: Callable[..., Any], fit: Callable[..., Any]) -> Any:
    """A model that was made with gradients, of the same weights at every call."""
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(1, 1)
    fit(model, *rows(), **QUIET)
    return model


def _members() -> Any:
    settings = MemberSettings(members=2, width=8, epochs=1)
    return pyro_gcm.fit_members(*rows(), settings=settings, progress=False).model


def _estimator(made: Any, y: Callable[[Tensor], Any] = lambda y: y) -> Any:
    x, r, outcome = rows()
    return made.fit(torch.cat([x, r], 1), y(outcome)).model_


#: What trains, and returns the model.
FITS: dict[str, Callable[[], Any]] = {
    "fit": lambda: _trained(GCM, pyro_gcm.fit),
    "baseline": lambda: _trained(baselines.MLP, baselines.fit),
    "fit_members": _members,
    "classifier": lambda: _estimator(GCMClassifier(**FAST)),
    "regressor": lambda: _estimator(GCMRegressor(**FAST)),
    "survival": lambda: _estimator(
        GCMSurvival(**FAST), lambda y: SurvivalTimes.right_censored(y + 1.0, y == 1.0)
    ),
}


@pytest.mark.long(keep=8)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fit", FITS)
def test_the_same_model_is_trained(fit: str, state: str) -> None:
    wanted = FITS[fit]().state_dict()
    with STATES[state]():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        model = FITS[fit]()
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    found = model.state_dict()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_a_model_of_the_inference_mode_is_refused() -> None:
    for kind, fit in ((GCM, pyro_gcm.fit), (baselines.MLP, baselines.fit)):
        with torch.inference_mode():
            model = kind(1, 1)
        with pytest.raises(ValueError, match=r"tensors that were made in torch\.inference_mode"):
            fit(model, *rows(), **QUIET)


def test_predictions_in_the_inference_mode_leave_a_model_that_can_be_trained() -> None:
    model = GCM(1, 1, hidden=8)
    x, r, y = rows()
    with torch.inference_mode():
        model.predict(x, r)
        model.log_prob(x, r, y)
    pyro_gcm.fit(model, x, r, y, **QUIET)
