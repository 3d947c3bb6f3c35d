"""Training on a device that is not the CPU: the rows may come from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
import zoo
from baseline_checks import ALL
from placed import assert_same, few_rows, fitted, forms, on
from pyro.infer import SVI, Predictive, RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from training_runs import goes_on

from pyro_gcm import baselines, fit
from pyro_gcm.inference import bayesian, conditional, uncollapse
from pyro_gcm.models import HierarchicalGCM

pytestmark = pytest.mark.filterwarnings("ignore:prior='standard'", "ignore:.*are seeded")
ROWS = few_rows("plain", 12)[:3]
TRAINING: dict[str, Any] = {"epochs": 1, "num_particles": 2, "progress": False}


def same_state(model: Any, on_cpu: Any, device: torch.device, same_draws: bool, what: str) -> None:
    """The model is on the device, with the state of the other."""
    wanted = on_cpu.state_dict()
    for name, value in model.state_dict().items():
        assert value.device == device, f"{name} of {what}"
        assert value.isfinite().all(), f"{name} of {what}"
        assert_same(value, wanted[name], f"{name} of {what}", same_draws)


@pytest.mark.long(keep=16)
@pytest.mark.parametrize("kind", [name for name in zoo.KINDS if name not in zoo.AXIS_KINDS])
def test_fit_moves_and_trains_as_on_the_cpu(kind: str, device: torch.device) -> None:
    for form, (put, _) in forms(device).items():
        # The generator of CUDA draws other numbers.
        same_state(fitted(kind, device, put), on(kind), device, device.type != "cuda", form)


@pytest.mark.long(keep=6)
@pytest.mark.parametrize("name", ALL)
def test_a_baseline_trains_on_the_device_and_predicts_where_the_input_is(
    name: str, device: torch.device
) -> None:
    def trained(place: Any, put: Any = lambda values: values) -> tuple[Any, list[Any]]:
        torch.manual_seed(0)
        model = ALL[name](3, 2)
        baselines.fit(model, *map(put, ROWS), device=place, epochs=1, progress=False)
        x, r = put(ROWS[0]), put(ROWS[1])
        return model, [model.predict(x, r), model.surface(x, r), model.surface(x, r, cached=False)]

    on_cpu, wanted = trained("cpu")
    assert on_cpu.predict(ROWS[0].to(device), ROWS[1]).device == device
    for form, (put, home) in forms(device).items():
        model, found = trained(device, put)
        assert {value.device for value in model.state_dict().values()} == {device}
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.device == home, form
            assert_same(ours, theirs, form)


def test_a_run_there_goes_on_from_its_checkpoint(tmp_path: Path, device: torch.device) -> None:
    options = {**TRAINING, "epochs": 3, "validation": 0.25, "patience": 3, "device": device}

    def run(**more: Any) -> tuple[Any, Any]:
        model = zoo.build("plain", torch.float32)
        result = fit(model, *ROWS, **options, **more)
        assert {value.device for value in model.state_dict().values()} == {device}
        return model, result

    goes_on(run, tmp_path / "run.pt", 2)


def test_a_model_there_is_trained_further_there_and_on_the_cpu(device: torch.device) -> None:
    model = zoo.build("implicit, one kernel", torch.float32).to(device)
    for place in (device, torch.device("cpu"), device):
        fit(model, *ROWS, device=place, **TRAINING)
        assert {value.device for value in model.state_dict().values()} == {place}


def test_pyro_runs_there(device: torch.device) -> None:
    for kind in ("plain", "implicit"):
        on_cpu = zoo.build(kind, torch.float32)
        on_cpu.learn_units(*ROWS)
        for elbo in (Trace_ELBO(), TraceMeanField_ELBO(), RenyiELBO(num_particles=2)):
            model = zoo.build(kind, torch.float32).to(device)
            model.learn_units(*ROWS)  # from the CPU
            same_state(model, on_cpu, device, True, kind)
            columns = tuple(column.to(device) for column in ROWS)
            svi = SVI(conditional(model), model.guide, pyro.optim.Adam({"lr": 0.01}), elbo)
            assert svi.step(*columns) > 0.0
            state = on_cpu.state_dict()
            moved = [k for k, v in model.state_dict().items() if not torch.equal(v.cpu(), state[k])]
            assert moved, (kind, elbo)
        draws = Predictive(uncollapse(model), guide=model.guide, num_samples=3)(*columns)
        assert {value.device for value in draws.values()} == {device}
        assert draws["c"].shape[0] == 3


def test_groups_and_weights_with_priors_are_learned_on_the_device(device: torch.device) -> None:
    x, r, y = (column.to(device) for column in ROWS)
    x = torch.cat([x, torch.arange(len(x), device=device)[:, None] % 3], 1)
    model = HierarchicalGCM(x.shape[1], r.shape[1], groups=3)
    fit(model, x, r, y, device=device, **TRAINING)
    effects = model.posterior(x, r, num_samples=4, progress=False)["effect"]
    plain = zoo.build("plain", torch.float32).to(device)
    plain.learn_units(*(column.to(device) for column in ROWS))
    weights = bayesian(plain, num_samples=2).fit(*ROWS, steps=2, progress=False)
    for values in (effects, model.predict(x, r), weights.predict_draws(ROWS[0].to(device), r)):
        assert values.device == device
        assert values.isfinite().all()
