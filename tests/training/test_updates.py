"""Adam, AdamW and the clipping of gradients are those of torch to the last bit; averages."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyro_gcm import GCM, data, fit, fit_members
from pyro_gcm.training import Adam, AdamW
from pyro_gcm.training.loop import clip_gradients
from pyro_gcm.training.options import AveragedWeights

PAIRS = {"Adam": (Adam, torch.optim.Adam), "AdamW": (AdamW, torch.optim.AdamW)}


def make(optimizer: Any, **options: Any) -> tuple[list[torch.nn.Parameter], Any]:
    """Parameters of two dtypes in two groups."""
    generator = torch.Generator().manual_seed(0)
    kinds = [((5, 3), torch.float32), ((7,), torch.float64), ((), torch.float32)]
    parameters = [
        torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for shape, dtype in kinds
    ]
    made = optimizer(parameters[:2], lr=0.02, weight_decay=0.1, **options)
    made.add_param_group({"params": parameters[2:], "lr": 0.5})
    return parameters, made


def set_gradients(parameters: list[torch.nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
    if step == 4:
        parameters[0].grad = None  # which is skipped in this step


@pytest.mark.parametrize("name", PAIRS)
def test_updates_and_state_are_those_of_torch(name: str) -> None:
    (mine, ours), (theirs, reference) = (make(PAIRS[name][0]), make(PAIRS[name][1], fused=True))
    for step in range(12):
        for parameters, optimizer in ((mine, ours), (theirs, reference)):
            set_gradients(parameters, step)
            optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)  # as a scheduler does
            optimizer.step()
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)), step
        if step == 7:  # goes on from a state of torch, as after a checkpoint
            ours.load_state_dict(copy.deepcopy(reference.state_dict()))
    a, b = ours.state_dict(), reference.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for key, state in b["state"].items():
        assert all(torch.equal(a["state"][key][part], value) for part, value in state.items())


@pytest.mark.parametrize("size", [1.0, 1e-5])
@pytest.mark.parametrize("factor", [0.3, 0.98, 0.995, 1.0, 1.01, 50.0, float("inf"), float("nan")])
def test_clipped_gradients_are_those_of_torch(factor: float, size: float) -> None:
    torch.manual_seed(0)
    mine, theirs = ([torch.nn.Parameter(torch.zeros(s)) for s in ((4, 3), (5,), ())] for _ in "ab")
    gradients = [size * torch.randn(p.shape) for p in mine]
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    for a, b, gradient in zip(mine, theirs, gradients, strict=True):
        a.grad, b.grad = gradient * factor, gradient * factor
    mine.append(torch.nn.Parameter(torch.zeros(2)))  # without a gradient
    clip_gradients(mine, norm)
    torch.nn.utils.clip_grad_norm_(theirs, norm)
    for a, b in zip(mine, theirs, strict=False):
        torch.testing.assert_close(a.grad, b.grad, rtol=0.0, atol=0.0, equal_nan=True)


# Averaged weights, and early stopping that keeps the mean prediction at the rate of y


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
    options |= {"validation": 0.15, "patience": 5, "schedule": None}
    result = fit(model, x, r, y, seed=4, progress=False, **options)
    assert result.stopped_early
    train = torch.randperm(3000, generator=torch.Generator().manual_seed(4))[450:]
    assert abs(off_in_standard_errors(model, x[train], r[train], y[train])) < 2.0


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("name", ["adult", "compas", "diabetes", "loan_psds", "simulated"])
def test_members_predict_the_rate(name: str) -> None:
    rows = rows_of(name)
    fitted = fit_members(*rows, progress=False)
    assert fitted.crossed is not None
    assert abs(off_in_standard_errors(fitted.model, *rows)) < 2.0
