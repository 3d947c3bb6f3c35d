"""A run visits each row once an epoch, and a number that is not finite stops it."""

from __future__ import annotations

import itertools
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


def kept_state(checkpoint: Path) -> dict[str, Any]:
    content = BytesIO(checkpoint.read_bytes().partition(b"\n")[2])
    state: dict[str, Any] = torch.load(content, weights_only=True)["state"]
    return state


def test_the_batch_is_named_and_the_weights_of_the_last_epoch_stay(tmp_path: Path) -> None:
    faults = [("loss", math.nan, 10.0), ("gradient", math.nan, None), ("gradient", math.inf, 10.0)]
    for number, (step, (where, value, clip_norm)) in enumerate(
        itertools.product((1, 4, 7, LAST), faults)
    ):
        model, kept, steps = baselines.MLP(3, 2, hidden=4), {}, list[int]()
        model.network.hidden.append(Faulty(step, where, value))

        def note(done: int, model: Any = model, kept: Any = kept, steps: Any = steps) -> None:
            steps.append(done)
            if done % 4 == 0:
                kept[done] = weights(model)

        batch, epoch = (step - 1) % 4 + 1, (step - 1) // 4 + 1
        message = rf"batch {batch} of 4 in epoch {epoch}\. The model has "
        message += "the weights that it had" if epoch == 1 else f"the weights of epoch {epoch - 1}"
        options = {**OPTIONS, "clip_norm": clip_norm, "checkpoint": tmp_path / str(number)}
        with pytest.raises(Diverged, match=message):
            baselines.fit(model, X, R, Y, **options, callback=note)
        assert steps == list(range(step))  # the step does not count
        state = kept_state(tmp_path / str(number))
        assert len(state["history"]) == epoch - 1
        for left in (weights(model), state["model"]):
            assert same(left, kept[4 * (epoch - 1)]), (step, where, value)


def test_weights_are_looked_at_before_an_epoch_counts(tmp_path: Path) -> None:
    message = r"a weight of cost_net\..* is not finite (before|after) the step in batch 4 of 4"
    for step in (3, 4, LAST):
        model, path = GCM(3, 2, hidden=4), tmp_path / str(step)

        def spoil(done: int, model: Any = model, step: int = step) -> None:
            if done == step:
                next(iter(model.cost_net.parameters())).data[0] = math.inf

        with pytest.raises(Diverged, match=message):
            fit(model, X, R, Y, **OPTIONS, num_particles=2, checkpoint=path, callback=spoil)
        assert all(value.isfinite().all() for value in weights(model).values())
        assert len(kept_state(path)["history"]) == (step - 1) // 4


def test_validation_without_a_finite_loss_is_an_error() -> None:
    class Odd(baselines.MLP):
        def standard_loss(self, *columns: Tensor) -> Tensor:
            loss = super().standard_loss(*columns)
            return loss if self.training else loss * value

    for value in (math.nan, math.inf):
        with pytest.raises(Diverged, match=f"loss of the validation rows is {value}"):
            baselines.fit(Odd(3, 2), X, R, Y, **OPTIONS, validation=0.2)


@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_every_epoch_visits_the_training_rows_once(validation: float) -> None:
    seen: list[tuple[bool, list[float]]] = []

    class Noting(baselines.MLP):
        def standard_loss(self, *columns: Tensor) -> Tensor:
            seen.append((self.training, columns[1][:, 0].tolist()))
            return super().standard_loss(*columns)

    x, r, y = torch.randn(50, 3), torch.arange(50.0)[:, None], torch.arange(50) % 2
    options: Any = {"standardize": False, "progress": False, "validation": validation}
    result = baselines.fit(Noting(3, 1), x, r, y, epochs=2, batch_size=7, **options)
    training, held_out = (
        [v for t, batch in seen if t is kind for v in batch] for kind in (True, False)
    )
    rows = 50 - round(50 * validation)
    assert sorted(training[:rows]) == sorted(training[rows:])
    assert training[:rows] != training[rows:]
    assert sorted(training[:rows] + held_out[: 50 - rows]) == r[:, 0].tolist()
    assert result.history.epoch.tolist() == [1, 2]
    assert "history" not in repr(result)
