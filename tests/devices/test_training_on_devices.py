"""Training on a device that is not the CPU: the rows may come from anywhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from placed_models import KINDS, Put, few_rows, fitted, on, untrained
from pyro.infer import SVI, Predictive, RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from training_runs import goes_on

from pyro_gcm import fit
from pyro_gcm.inference import bayesian, conditional, uncollapse
from pyro_gcm.models import HierarchicalGCM

pytestmark = pytest.mark.filterwarnings("ignore:prior='standard'", "ignore:.*are seeded")
ROWS = few_rows("plain", 12)[:3]
TRAINING: dict[str, Any] = {"epochs": 1, "num_particles": 2, "progress": False}


@pytest.mark.long(keep=16)
@pytest.mark.parametrize("kind", KINDS)
def test_fit_moves_and_trains_as_on_the_cpu(kind: str, put: Put, device: torch.device) -> None:
    same(fitted(kind, device, put), on(kind), device)


OPTIONS: dict[str, dict[str, Any]] = {
    "renyi": {"elbo": "renyi"},
    "mean_field": {"elbo": "mean_field"},
    "no schedule, SGD": {"schedule": None, "optimizer": torch.optim.SGD},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_options_of_fit_are_those_of_the_cpu(options: dict[str, Any], device: torch.device) -> None:
    same(fitted("plain", device, **options), fitted("plain", "cpu", **options), device)


def same(model: Any, on_cpu: Any, device: torch.device) -> None:
    """The model is on the device, with the state of the other."""
    state, wanted = model.state_dict(), on_cpu.state_dict()
    assert {value.device for value in state.values()} == {device}
    for name, value in state.items():
        assert value.isfinite().all(), name
        if device.type != "cuda":  # whose generator draws other numbers
            torch.testing.assert_close(value.cpu(), wanted[name], rtol=1e-4, atol=1e-6)


def test_a_run_there_goes_on_from_its_checkpoint(tmp_path: Path, device: torch.device) -> None:
    options = {**TRAINING, "epochs": 3, "validation": 0.25, "patience": 3, "device": device}

    def run(**more: Any) -> tuple[Any, Any]:
        model = untrained("plain")
        result = fit(model, *ROWS, **options, **more)
        assert {value.device for value in model.state_dict().values()} == {device}
        return model, result

    goes_on(run, tmp_path / "run.pt", 2)


def test_a_model_there_is_trained_further_there_and_on_the_cpu(device: torch.device) -> None:
    model = untrained("implicit, one kernel").to(device)
    for place in (device, torch.device("cpu"), device):
        fit(model, *ROWS, device=place, **TRAINING)
        assert {value.device for value in model.state_dict().values()} == {place}


@pytest.mark.parametrize("kind", ["plain", "continuous", "implicit"])
def test_learn_units_takes_rows_from_either_device(kind: str, device: torch.device) -> None:
    columns = few_rows(kind, 12)[:3]
    on_cpu = untrained(kind)
    on_cpu.learn_units(*columns)
    for place in (torch.device("cpu"), device):
        model = untrained(kind).to(device)
        model.learn_units(*(column.to(place) for column in columns))
        for name, value in model.state_dict().items():
            assert value.device == device
            torch.testing.assert_close(value.cpu(), on_cpu.state_dict()[name])


@pytest.mark.parametrize(
    "elbo", [Trace_ELBO, TraceMeanField_ELBO, functools.partial(RenyiELBO, num_particles=2)]
)
@pytest.mark.parametrize("kind", ["plain", "implicit"])
def test_svi_and_predictive_run(kind: str, elbo: Callable[[], Any], device: torch.device) -> None:
    model = untrained(kind).to(device)
    columns = tuple(column.to(device) for column in ROWS)
    model.learn_units(*columns)
    program = conditional(model)
    svi = SVI(program, model.guide, pyro.optim.Adam({"lr": 0.01}), elbo())
    before = {name: value.cpu().clone() for name, value in model.state_dict().items()}
    assert svi.step(*columns) > 0.0
    assert any(not torch.equal(v.cpu(), before[k]) for k, v in model.state_dict().items())
    draws = Predictive(uncollapse(model), guide=model.guide, num_samples=3)(*columns)
    assert {value.device for value in draws.values()} == {device}
    assert draws["c"].shape[0] == 3


def test_groups_and_weights_with_priors_are_learned_on_the_device(device: torch.device) -> None:
    x, r, y = (column.to(device) for column in ROWS)
    x = torch.cat([x, torch.arange(len(x), device=device)[:, None] % 3], 1)
    model = HierarchicalGCM(x.shape[1], r.shape[1], groups=3)
    fit(model, x, r, y, device=device, **TRAINING)
    effects = model.posterior(x, r, num_samples=4, progress=False)["effect"]
    plain = untrained("plain").to(device)
    plain.learn_units(*(column.to(device) for column in ROWS))
    found = bayesian(plain, num_samples=2).fit(*ROWS, steps=2, progress=False)
    for values in (effects, model.predict(x, r), found.predict_draws(ROWS[0].to(device), r)):
        assert values.device == device
        assert values.isfinite().all()
