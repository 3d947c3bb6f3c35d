"""Baselines on a device that is not the CPU: inputs move there, predictions come back."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from baseline_checks import ALL, Make
from placed_models import Put, few_rows
from torch import Tensor

from pyro_gcm import baselines
from pyro_gcm.baselines import Baseline, MonotoneBoosting

ROWS = few_rows("plain", 12)[:3]
TRAINING: dict[str, Any] = {"epochs": 1, "progress": False}
MODELS: dict[str, Make] = {
    **ALL,
    "MLP, continuous": functools.partial(baselines.MLP, response="continuous"),
}


@pytest.mark.long(keep=13)
@pytest.mark.parametrize("name", MODELS)
def test_a_baseline_trains_on_the_device_and_predicts_where_the_input_is(
    name: str, put: Put, home: torch.device, device: torch.device
) -> None:
    wanted = _on_cpu(name)
    model = _trained(name, device, put)
    assert {value.device for value in model.state_dict().values()} == {device}
    for ours, theirs in zip(_predictions(model, put), wanted, strict=True):
        assert ours.device == home
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-5)


def test_the_first_tensor_among_the_inputs_decides(device: torch.device) -> None:
    x, r, _ = ROWS
    on_device, on_cpu = _trained("MLP", device), _trained("MLP", "cpu")
    assert on_device.predict(x, r.to(device)).device == torch.device("cpu")
    assert on_device.predict(x.to(device), r.numpy()).device == device
    assert on_cpu.predict(x.to(device), r).device == device
    assert on_cpu.surface(x.to(device), r, cached=False).device == device


def test_boosting_takes_rows_from_anywhere_and_predicts_where_the_input_is(
    put: Put, home: torch.device, device: torch.device
) -> None:
    wanted = MonotoneBoosting(max_iter=2).fit(*ROWS).predict(*ROWS[:2])
    model = MonotoneBoosting(max_iter=2).fit(*map(put, ROWS))
    predictions = model.predict(put(ROWS[0]), put(ROWS[1]))
    assert predictions.device == home
    torch.testing.assert_close(predictions.cpu(), wanted)


@functools.cache
def _on_cpu(name: str) -> tuple[Tensor, ...]:
    return _predictions(_trained(name, "cpu"), lambda values: values)


def _trained(name: str, device: Any, put: Put = lambda values: values) -> Baseline:
    torch.manual_seed(0)
    model = MODELS[name](3, 2)
    baselines.fit(model, *map(put, ROWS), device=device, **TRAINING)
    return model


def _predictions(model: Baseline, put: Put) -> tuple[Tensor, ...]:
    x, r = put(ROWS[0]), put(ROWS[1])
    return model.predict(x, r), model.surface(x, r), model.surface(x, r, cached=False)
