"""Several processes train as one does: the same noise, losses, weights, decisions and files."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from worker_runs import CASES, all_cases, in_processes, losses_of, members, table

from pyro_gcm import GCM, fit
from pyro_gcm.training import WorkerLost
from pyro_gcm.training.workers import ALONE, workers_of

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this build of torch has no torch.distributed"
)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return all_cases(None)
    finally:
        torch.set_default_dtype(before)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("size", [2, 3])
def test_processes_make_the_steps_of_one(size: int, alone: dict[str, Any], tmp_path: Path) -> None:
    everyone = in_processes(size, tmp_path, all_cases, True)
    for found in everyone:
        assert not isinstance(found, Exception), found
        for name in CASES:
            losses, held_out, engine, best, weights = found[name]
            ours = alone[name]
            assert losses == pytest.approx(ours[0], rel=0, abs=1e-12), name
            assert len(losses) == len(ours[0]) >= 10
            assert (engine, best) == ours[2:4], name
            if held_out[0] is not None:
                assert held_out == pytest.approx(ours[1], rel=0, abs=1e-12)
            for key, value in weights.items():
                torch.testing.assert_close(value, ours[4][key], rtol=0, atol=1e-9)
                assert torch.equal(value, everyone[0][name][4][key])


def _refusals() -> list[str]:
    """What is said of a second run, of other rows, of small batches, and of batch norm."""
    torch.distributed.init_process_group("gloo")
    x, r, y = table()
    other = x.clone()
    other[0] += torch.distributed.get_rank()
    normed = members()
    normed.encoder.add_module("norm", torch.nn.BatchNorm1d(3))
    said: list[str] = []

    def inner(step: int) -> None:
        if step == 1:
            with pytest.raises(RuntimeError) as refused:
                fit(members().double(), x, r, y, epochs=1, distributed=True, progress=False)
            said.append(str(refused.value))

    fit(members().double(), x, r, y, epochs=1, distributed=True, progress=False, callback=inner)
    for model, rows, size in ((members(), other, 13), (members(), x, 1), (normed, x, 13)):
        with pytest.raises(ValueError, match="process") as refused:
            fit(model.double(), rows, r, y, epochs=1, batch_size=size, progress=False)
        said.append(str(refused.value))
    return said


@pytest.mark.long(keep=0)
def test_what_cannot_be_shared_is_refused_in_every_process(tmp_path: Path) -> None:
    for said in in_processes(2, tmp_path, _refusals):
        assert "another thread trains a model with these processes" in said[0]
        assert "every process must be given the same rows" in said[1]
        assert "the checksum of the rows is" in said[1]
        assert "batch_size must be at least the number of processes, 2" in said[2]
        assert "BatchNorm1d would take the statistics of one process's part" in said[3]


def _killed(checkpoint: Path, step: int) -> Any:
    def callback(steps: int) -> None:
        if steps == step and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    return losses_of(
        "members", distributed=True, checkpoint=checkpoint, checkpoint_every=1e-9, callback=callback
    )


def _resumed(checkpoint: Path) -> Any:
    losses, _, weights = losses_of("members", distributed=True, checkpoint=checkpoint)
    return losses, weights


@pytest.mark.long(keep=0)
def test_a_run_goes_on_after_a_process_was_killed(alone: dict[str, Any], tmp_path: Path) -> None:
    checkpoint, step = tmp_path / "run", 13
    (tmp_path / "killed").mkdir()
    survivor, dead = in_processes(2, tmp_path / "killed", _killed, checkpoint, step)
    assert dead is None
    with pytest.raises(WorkerLost, match="another process of this run has ended"):
        raise survivor
    # Steps were written in the middle of the second epoch; three processes go on there.
    ours = alone["members"]
    (tmp_path / "resumed").mkdir()
    for losses, weights in in_processes(3, tmp_path / "resumed", _resumed, checkpoint):
        assert losses == pytest.approx(ours[0][step:], rel=0, abs=1e-12)
        for key, value in weights.items():
            torch.testing.assert_close(value, ours[4][key], rtol=0, atol=1e-9)
    assert not checkpoint.exists()


def test_without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers_of(None) is ALONE
    assert workers_of(False) is ALONE
    assert workers_of(np.False_) is ALONE
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="there is no RANK, WORLD_SIZE, MASTER_ADDR in the env"):
        workers_of(True)
    with pytest.raises((TypeError, ValueError), match="distributed must be True or False"):
        fit(GCM(3, 2).double(), *table(), distributed="yes")
