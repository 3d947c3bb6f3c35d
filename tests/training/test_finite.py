"""A number that is not finite stops a run, which leaves good weights in the model and on disk."""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor, nn
from training_runs import same, weights

from pyro_gcm import GCM, baselines, fit
from pyro_gcm.training import Diverged

X, R, Y = zoo.rows(count=200).map(torch.Tensor.float)[:3]
#: Four batches an epoch.
OPTIONS: Any = {"epochs": 3, "batch_size": 50, "progress": False}
LAST = 12


class Faulty(nn.Module):
    """A layer whose output or gradient fails at one step."""

    def __init__(self, step: int, where: str, value: float) -> None:
        super().__init__()
        self.step, self.where, self.value, self.calls = step, where, value, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls != self.step:
            return x
        if self.where == "loss":
            return x * self.value
        x.register_hook(lambda gradient: gradient * self.value)
        return x


def faulty_baseline(step: int, where: str, value: float) -> nn.Module:
    model = baselines.MLP(3, 2, hidden=4)
    model.network.hidden.append(Faulty(step, where, value))
    return model


@pytest.mark.parametrize(
    ("where", "value", "clip_norm"),
    [("loss", math.nan, 10.0), ("gradient", math.nan, None), ("gradient", math.inf, 10.0)],
)
@pytest.mark.parametrize("step", [1, 4, 7, LAST])
def test_the_batch_is_named_and_the_weights_of_the_last_epoch_stay(
    step: int, where: str, value: float, clip_norm: float | None, tmp_path: Path
) -> None:
    kept: dict[int, dict[str, Tensor]] = {}
    model, steps = faulty_baseline(step, where, value), list[int]()

    def note(done: int) -> None:
        steps.append(done)
        if done % 4 == 0:
            kept[done] = weights(model)

    path = tmp_path / "run"
    batch, epoch = (step - 1) % 4 + 1, (step - 1) // 4 + 1
    message = rf"batch {batch} of 4 in epoch {epoch} \(rows \d+, .*, \.\.\.\)\. The model has "
    message += "the weights that it had" if epoch == 1 else f"the weights of epoch {epoch - 1}"
    options = {**OPTIONS, "clip_norm": clip_norm, "checkpoint": path}
    with pytest.raises(Diverged, match=message):
        baselines.fit(model, X, R, Y, **options, callback=note)
    assert steps == list(range(step))  # the step does not count
    assert same(weights(model), kept[4 * (epoch - 1)])
    content = BytesIO(path.read_bytes().partition(b"\n")[2])
    state = torch.load(content, weights_only=True)["state"]
    assert len(state["history"]) == epoch - 1
    assert same(state["model"], kept[4 * (epoch - 1)])


@pytest.mark.parametrize("step", [3, 4, LAST])
def test_weights_are_looked_at_before_an_epoch_counts(step: int, tmp_path: Path) -> None:
    model, path = GCM(3, 2, hidden=4), tmp_path / "run"

    def spoil(done: int) -> None:
        if done == step:
            next(iter(model.cost_net.parameters())).data[0] = math.inf

    message = r"a weight of cost_net\..* is not finite (before|after) the step in batch 4 of 4"
    with pytest.raises(Diverged, match=message):
        fit(model, X, R, Y, **OPTIONS, num_particles=2, checkpoint=path, callback=spoil)
    assert all(value.isfinite().all() for value in weights(model).values())
    content = BytesIO(path.read_bytes().partition(b"\n")[2])
    state = torch.load(content, weights_only=True)["state"]
    assert len(state["history"]) == (step - 1) // 4


def test_validation_without_a_finite_loss_is_an_error() -> None:
    class Odd(baselines.MLP):
        def standard_loss(self, *columns: Tensor) -> Tensor:
            loss = super().standard_loss(*columns)
            return loss if self.training else loss * value

    for value in (math.nan, math.inf):
        with pytest.raises(Diverged, match=f"loss of the validation rows is {value}"):
            baselines.fit(Odd(3, 2), X, R, Y, **OPTIONS, validation=0.2)
