"""What training runs leave in a model, also those that are interrupted and go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

#: Options of `fit` for a training run of a tenth of a second.
QUICK: dict[str, Any] = {"epochs": 3, "batch_size": 64, "num_particles": 8, "progress": False}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that a model has learned."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two models are equal bit for bit."""
    return a.keys() == b.keys() and all(bool((a[name] == b[name]).all()) for name in a)


def stop_at(step: int) -> Callable[[int], None]:
    """A callback that interrupts a run at one step."""

    def callback(done: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    return callback


def goes_on(run: Callable[..., tuple[Any, Any]], path: Path, step: int, first: int = -1) -> None:
    """A run that is interrupted and resumed ends as one that is not.

    :param run: trains a new model with these options of `fit`, and returns it and the result.
    :param step: at which the run is interrupted.
    :param first: the step at which it must go on; by default any but the first.
    """
    (whole, wanted), steps = run(), list[int]()
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, callback=stop_at(step))
    assert path.exists()
    torch.manual_seed(99)
    resumed, got = run(checkpoint=path, callback=steps.append)
    assert steps[0] == first if first >= 0 else 0 not in steps
    without_time = [result.history.drop(columns="seconds") for result in (wanted, got)]
    assert without_time[0].equals(without_time[1])
    assert (got.best_epoch, got.stopped_early) == (wanted.best_epoch, wanted.stopped_early)
    assert same(weights(resumed), weights(whole))
    assert not list(path.parent.iterdir())  # nothing is left of a complete run


def loss_and_gradient(model: Any, loss: Tensor) -> tuple[Tensor, Tensor]:
    """A loss, and its gradient in all parameters that it depends on."""
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return loss.detach(), torch.cat([g.flatten() for g in found if g is not None])
