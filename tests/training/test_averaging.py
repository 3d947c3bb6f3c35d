"""Averaged weights, and early stopping that keeps the mean prediction at the rate of y."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyro_gcm import GCM, data, fit, fit_members
from pyro_gcm.training import FitSettings
from pyro_gcm.training.updates import AveragedWeights


def test_average_of_all_steps_at_first_and_of_an_epoch_later() -> None:
    weight = nn.Parameter(torch.zeros(2))
    average = AveragedWeights([weight], steps=40)
    for step in range(1, 41):
        weight.data.fill_(float(step))
        average.update(step)
    assert torch.allclose(average.mean[0], torch.full((2,), 20.5))
    weight.data.fill_(0.0)
    average.update(41)
    assert torch.allclose(average.mean[0], torch.full((2,), 20.5 * 39.0 / 40.0))


def test_the_weights_come_back() -> None:
    weight = nn.Parameter(torch.zeros(2))
    average = AveragedWeights([weight], steps=40)
    weight.data.fill_(3.0)

    def fail() -> None:
        assert weight.tolist() == [0.0, 0.0]
        raise KeyError

    with pytest.raises(KeyError), average.in_place():
        fail()
    assert weight.tolist() == [3.0, 3.0]


def simulated(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(rows, 6, generator=g), torch.randn(rows, 3, generator=g)
    score = 1.2 * x[:, 0] + x[:, 1] * x[:, 2] + torch.logaddexp(r[:, 0], 1.5 * r[:, 1]) - 4.0
    return x, r, (torch.rand(rows, generator=g) < (score + 0.5 * r[:, 2]).sigmoid()).float()


def rows_of(name: str, rows: int = 8000) -> tuple[Tensor, Tensor, Tensor]:
    if name == "simulated":
        return simulated(rows)
    if not os.environ.get("PYRO_GCM_DATA"):
        pytest.skip("PYRO_GCM_DATA is not set")
    table = data.load(name)
    chosen = torch.randperm(len(table.y), generator=torch.Generator().manual_seed(1))
    if name == "loan_psds":  # a balanced table, of which a sample has the share of real loans
        bad, good = chosen[table.y[chosen] == 1], chosen[table.y[chosen] == 0]
        chosen = torch.cat([bad[: rows // 7], good[: rows - rows // 7]])
    chosen = chosen[:rows]
    return table.x[chosen], table.r[chosen], table.y[chosen]


def off_in_standard_errors(model: Any, x: Tensor, r: Tensor, y: Tensor) -> float:
    """The mean prediction less the rate of y, in standard errors of that rate."""
    rate = float(y.double().mean())
    error = (rate * (1.0 - rate) / len(y)) ** 0.5
    return (float(model.predict(x, r).double().mean()) - rate) / error


def test_mean_prediction_after_early_stopping_is_the_rate() -> None:
    """With the weights of single steps it is off by 5.6 standard errors."""
    x, r, y = simulated(3000)
    model = GCM(6, 3, alternatives=3, costs=3, seed=4)
    options: Any = {"num_particles": 4, "learning_rate": 0.03, "epochs": 60}
    options |= {"validation": 0.15, "settings": FitSettings(patience=5, schedule=None)}
    result = fit(model, x, r, y, seed=4, progress=False, **options)
    assert result.stopped_early
    train = torch.randperm(3000, generator=torch.Generator().manual_seed(4))[450:]
    assert abs(off_in_standard_errors(model, x[train], r[train], y[train])) < 2.0


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("name", ["adult", "compas", "diabetes", "loan_psds", "simulated"])
def test_members_predict_the_rate(name: str) -> None:
    rows = rows_of(name)
    fitted = fit_members(*rows, progress=False)
    assert fitted.result.crossed is not None
    assert abs(off_in_standard_errors(fitted.model, *rows)) < 2.0
