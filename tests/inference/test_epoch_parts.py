"""Checkpoints that were written in the middle of an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.training import Diverged

#: Three batches an epoch; every step is written.
OPTIONS: dict[str, Any] = {"epochs": 3, "batch_size": 16, "validation": 0.25, "patience": 2}
EVERY_STEP: dict[str, Any] = {"checkpoint_every": 1e-9}


def trained(**options: Any) -> tuple[dict[str, Any], FitResult]:
    """The weights and the result."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(64, 2, generator=g), torch.rand(64, 1, generator=g)
    model = GCM(2, 1, hidden=4, seed=0)
    y = (x[:, 0] + r[:, 0] > 0.5).float()
    result = fit(model, x, r, y, **{**OPTIONS, **options}, progress=False)
    return model.state_dict(), result


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("step", [1, 3, 4, 8])
def test_a_run_goes_on_with_the_next_batch(step: int, tmp_path: Path) -> None:
    def stop(done: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    whole, result = trained()
    saved = {**EVERY_STEP, "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        trained(**saved, callback=stop)
    steps: list[int] = []
    weights, resumed = trained(**saved, callback=steps.append)
    assert steps[0] == step
    for name, value in whole.items():
        assert torch.equal(value, weights[name])
    assert resumed.history.drop(columns="seconds").equals(result.history.drop(columns="seconds"))
    assert resumed.stopped_early == result.stopped_early
    assert resumed.best_epoch == result.best_epoch


def test_an_epoch_that_failed_starts_again_with_a_lower_rate(tmp_path: Path) -> None:
    saved = {**EVERY_STEP, "checkpoint": tmp_path / "run", "clip_norm": None, "schedule": None}
    with pytest.raises(Diverged, match=r"batch [23] of 3 in epoch 1"):
        trained(**saved, learning_rate=1e38)
    weights, result = trained(**saved, learning_rate=0.01)
    again, unbroken = trained(clip_norm=None, schedule=None, learning_rate=0.01)
    assert len(result.rows) == len(unbroken.rows)
    for name, value in again.items():
        assert torch.equal(value, weights[name])
