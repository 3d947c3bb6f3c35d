"""Training on a device that is not the CPU: the rows may come from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyro
import pytest
import torch
from pyro.infer import SVI, Predictive, Trace_ELBO
from small_models import KINDS, TRAINING, Put

from pyro_gcm import GCM, IGCM, compare_assumptions, fit, render_model
from pyro_gcm.inference import conditional, uncollapse

pytestmark = pytest.mark.filterwarnings("ignore:prior='standard'", "ignore:.*seeded Monte Carlo")
ROWS = KINDS["binary"].rows


@pytest.mark.long(keep=30)
@pytest.mark.parametrize("kind", KINDS)
def test_fit_moves_the_model_and_trains_it_as_on_the_cpu(
    kind: str, put: Put, device: torch.device
) -> None:
    state = KINDS[kind].fit(device, put).state_dict()
    assert {value.device for value in state.values()} == {device}
    wanted = KINDS[kind].trained.state_dict()
    for name, value in state.items():
        assert value.isfinite().all(), name
        if device.type != "cuda":  # whose generator draws other numbers
            torch.testing.assert_close(value.cpu(), wanted[name], rtol=1e-4, atol=1e-6)


PARTS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{elbo: (GCM, {"guide": "posterior", "elbo": elbo}) for elbo in ("dreg", "elbo", "renyi")},
    "mean_field": (GCM, {"guide": "posterior", "elbo": "mean_field"}),
    "temperature": (GCM, {"guide": "posterior", "temperature": 0.5}),
    "no schedule, SGD": (GCM, {"schedule": None, "optimizer": torch.optim.SGD}),
    "laplace prior": (GCM, {"prior": "laplace"}),
    "mixture prior": (GCM, {"prior": "mixture"}),
    "flow prior": (GCM, {"prior": "flow"}),
    "amortised_full guide": (GCM, {"guide": "amortised_full", "prior": "standard"}),
    "posterior_flow guide": (GCM, {"guide": "posterior_flow"}),
    "logistic costs": (GCM, {"cost_family": "logistic"}),
    "laplace costs": (GCM, {"cost_family": "laplace"}),
    "positive linear map": (GCM, {"revenue_map": "positive_linear"}),
    "piecewise linear map": (GCM, {"revenue_map": "piecewise_linear"}),
    "sigmoid map, constant p0": (GCM, {"revenue_map": "sigmoid", "p0": "constant"}),
    "conditional kernel prior": (IGCM, {"kernel_prior": "conditional"}),
    "posterior_full kernel guide": (IGCM, {"kernel_guide": "posterior_full"}),
}


@pytest.mark.long(keep=12)
@pytest.mark.parametrize(("family", "options"), PARTS.values(), ids=PARTS.keys())
def test_every_part_and_bound_trains_and_predicts_on_the_device(
    family: Any, options: dict[str, Any], device: torch.device
) -> None:
    of_fit = {"elbo", "temperature", "schedule", "optimizer"}
    training = {**TRAINING, **{k: v for k, v in options.items() if k in of_fit}}
    parts = {k: v for k, v in options.items() if k not in of_fit}
    predictions = []
    for place in (torch.device("cpu"), device):
        model = family(2, 2, num_samples=8, hidden=4, **parts)
        result = fit(model, *ROWS[:3], device=place, **training)
        assert model.device == place
        assert result.history["loss"].notna().all()
        predictions.append(model.predict(ROWS.x.to(place), ROWS.r.to(place)))
    assert predictions[1].device == device
    if device.type != "cuda":
        torch.testing.assert_close(predictions[1].cpu(), predictions[0], rtol=1e-4, atol=1e-6)


def test_a_run_on_the_device_goes_on_from_its_checkpoint(
    tmp_path: Path, device: torch.device
) -> None:
    options = {**TRAINING, "epochs": 3, "validation": 0.25, "patience": 3, "device": device}
    whole = KINDS["binary"].build()
    result = fit(whole, *ROWS[:3], **options)

    def stop(step: int) -> None:
        if step == 2:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        fit(KINDS["binary"].build(), *ROWS[:3], **options, checkpoint=checkpoint, callback=stop)
    resumed = KINDS["binary"].build()
    again = fit(resumed, *ROWS[:3], **options, checkpoint=checkpoint)
    for name, value in resumed.state_dict().items():
        assert value.device == device
        assert torch.equal(value, whole.state_dict()[name]), name
    seconds = ["seconds"]
    pd.testing.assert_frame_equal(
        again.history.drop(columns=seconds), result.history.drop(columns=seconds)
    )


def test_a_model_on_the_device_is_trained_further_there_and_on_the_cpu(
    device: torch.device,
) -> None:
    model = KINDS["implicit, one coordinate"].build().to(device)
    for place in (device, torch.device("cpu"), device):
        fit(model, *ROWS[:3], device=place, **TRAINING)
        assert {value.device for value in model.state_dict().values()} == {place}


@pytest.mark.parametrize("kind", ["binary", "continuous", "implicit"])
def test_learn_units_takes_rows_from_either_device(kind: str, device: torch.device) -> None:
    rows = KINDS[kind].rows[:3]
    on_cpu = KINDS[kind].build()
    on_cpu.learn_units(*rows)
    for place in (torch.device("cpu"), device):
        model = KINDS[kind].build().to(device)
        model.learn_units(*(column.to(place) for column in rows))
        for name, value in model.state_dict().items():
            assert value.device == device
            torch.testing.assert_close(value.cpu(), on_cpu.state_dict()[name])


@pytest.mark.parametrize("kind", ["binary", "implicit"])
def test_svi_and_predictive_run_on_the_device(kind: str, device: torch.device) -> None:
    model = KINDS[kind].build().to(device)
    rows = tuple(column.to(device) for column in ROWS[:3])
    model.learn_units(*rows)
    program = conditional(model)
    svi = SVI(program, model.guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    before = {name: value.cpu().clone() for name, value in model.state_dict().items()}
    assert svi.step(*rows) > 0.0
    assert any(not torch.equal(v.cpu(), before[k]) for k, v in model.state_dict().items())
    draws = Predictive(uncollapse(model), guide=model.guide, num_samples=3)(*rows)
    assert {value.device for value in draws.values()} == {device}
    assert draws["c"].shape[0] == 3


@pytest.mark.parametrize("view", ["model", "conditional", "guide"])
@pytest.mark.parametrize("kind", ["binary", "quantile", "infinite costs", "implicit joint"])
def test_a_model_on_the_device_is_drawn_as_on_the_cpu(
    kind: str, view: str, device: torch.device
) -> None:
    graphs = [
        render_model(model, view=view) for model in (KINDS[kind].trained, KINDS[kind].on(device))
    ]
    assert str(graphs[0]) == str(graphs[1])


def test_assumptions_are_compared_on_the_device(put: Put, device: torch.device) -> None:
    rows = tuple(put(column) for column in ROWS[:3])
    small = {"num_samples": 8, "hidden": 4}
    result = compare_assumptions(
        rows, strict=small, implicit=small, folds=2, device=device, **TRAINING
    )
    assert result.scores[["strict", "implicit"]].notna().all(axis=None)
