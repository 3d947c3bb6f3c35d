"""Several processes train as one does: the same objective and decisions, and equal weights."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.members import build_members
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.training import FitSettings, Trainer, WorkerLost, gathered
from pyro_gcm.training.workers import ALONE, Workers, workers_of

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this build of torch has no torch.distributed"
)


TABLE = tuple(column.double() for column in zoo.rows(count=66)[:3])


def members(dropout: float = 0.0) -> GCM:
    settings = MemberSettings(members=3, width=6, dropout=dropout)
    with zoo.default_dtype(torch.float64):
        return build_members(settings, 3, 2, seed=1)


def trained(model: GCM, **options: Any) -> tuple[Any, Tensor, dict[str, Tensor]]:
    """The result of `fit`, loss and gradient of every step, and the weights."""
    steps: list[Tensor] = []
    step = Trainer._step

    def noted(self: Trainer, batch: list[Tensor]) -> Tensor:
        loss = step(self, batch)
        parts = [p.grad.flatten() for p in self.parameters.values() if p.grad is not None]
        steps.append(torch.cat([loss[None] / len(batch[0]), *parts]))
        return loss

    Trainer._step = noted  # type: ignore[method-assign]
    try:
        rows = () if "data" in options else TABLE
        # One row is left for the last batch of an epoch, which is fewer than there are processes.
        options = {"epochs": 3, "batch_size": 13, "seed": 3, **options}
        result = fit(model, *rows, **gathered(options), device="cpu", progress=False)
    finally:
        Trainer._step = step  # type: ignore[method-assign]
    return result, torch.stack(steps), model.state_dict()


def _start(
    rank: int, size: int, port: int, work: Callable[..., Any], folder: Path, *args: Any
) -> None:
    torch.set_num_threads(1)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )
    try:
        said = work(*args)
    except Exception as error:
        said = error
    torch.save(said, folder / f"{rank}")


def in_processes(size: int, folder: Path, work: Callable[..., Any], *args: Any) -> list[Any]:
    """What a function returns, or the error that it raises, in each of `size` processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    # What the module imports: its own folder is not on the path of the server before Python 3.13.
    context.set_forkserver_preload(["pytest", "pyro_gcm.members", "pyro_gcm.inference"])
    folder.mkdir(exist_ok=True)
    started = [
        context.Process(target=_start, args=(rank, size, port, work, folder, *args))
        for rank in range(size)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        process.kill()
    files = [folder / str(rank) for rank in range(size)]
    return [torch.load(file, weights_only=False) if file.exists() else None for file in files]


#: Plain gradient descent: Adam would make whole steps of the rounding of a gradient near 0.
SGD: dict[str, Any] = {"optimizer": torch.optim.SGD, "learning_rate": 0.1}
#: Runs without noise, whose numbers are those of one process.
WITHOUT_NOISE: dict[str, dict[str, Any]] = {
    "early stopping": {"validation": 0.2, "patience": 2, **SGD},
    "read in every epoch": {"data": [TABLE], "validation": 0.2, **SGD},
    "weights": {"sample_weight": torch.arange(1.0, 67.0) / 8.0, **SGD},
}


def _without_noise(distributed: bool | None) -> dict[str, Any]:
    return {
        name: trained(members(), distributed=distributed, **options)
        for name, options in WITHOUT_NOISE.items()
    }


def test_without_noise_the_steps_are_those_of_one_process(tmp_path: Path) -> None:
    alone = _without_noise(None)
    everyone = in_processes(3, tmp_path, _without_noise, True)
    for found in everyone:
        assert not isinstance(found, Exception), found
        for name, (result, steps, weights) in found.items():
            ours = alone[name]
            torch.testing.assert_close(steps, ours[1], rtol=0, atol=1e-9)
            assert result.best_epoch == ours[0].best_epoch
            for row, own in zip(result.rows, ours[0].rows, strict=True):
                assert row.get("validation_loss") == pytest.approx(own.get("validation_loss"))
            for key, value in weights.items():
                torch.testing.assert_close(value, ours[2][key], rtol=0, atol=1e-9)
                assert torch.equal(value, everyone[0][name][2][key])


#: Runs that draw: z, or dropout.
WITH_NOISE: dict[str, tuple[Callable[[], GCM], dict[str, Any]]] = {
    "sampled z": (lambda: GCM(3, 2, seed=1).double(), {"num_particles": 2}),
    "Pyro's ELBO": (lambda: GCM(3, 2, seed=1).double(), {"elbo": Trace_ELBO(2)}),
    "dropout": (lambda: members(dropout=0.5), {}),
}


def _with_noise(distributed: bool | None) -> dict[str, Any]:
    """Steps that leave the weights as they are, each on all rows."""
    options = {"epochs": 150, "batch_size": 66, "learning_rate": 1e-20, "clip_norm": None}
    return {
        name: trained(make(), distributed=distributed, **options, **more)
        for name, (make, more) in WITH_NOISE.items()
    }


@pytest.mark.long
def test_losses_and_gradients_are_those_of_one_process_on_average(tmp_path: Path) -> None:
    alone = _with_noise(None)
    first, second = in_processes(2, tmp_path, _with_noise, True)
    assert not isinstance(first, Exception), first
    for name, (_, steps, weights) in first.items():
        assert torch.equal(steps, second[name][1])
        assert all(torch.equal(value, second[name][2][key]) for key, value in weights.items())
        (spread, mean), (other_spread, other) = (
            torch.var_mean(own, 0) for own in (steps, alone[name][1])
        )
        error = ((spread + other_spread) / len(steps)).sqrt()
        assert ((mean - other).abs() <= 4.5 * error + 1e-12).all(), name
    seeds = [Workers(rank, 3).seed(seed=3, step=step) for rank in range(3) for step in range(4)]
    assert len(set(seeds)) == 12


def _refusals() -> list[str]:
    """What is said of a second run, of other rows, of small batches, and of batch norm."""
    torch.distributed.init_process_group("gloo")
    x, r, y = TABLE
    other = x[torch.distributed.get_rank() :]
    normed = members()
    normed.encoder.add_module("norm", torch.nn.BatchNorm1d(3))
    said: list[str] = []

    def train(model: GCM, rows: Tensor, size: int, **options: Any) -> None:
        fit(
            model,
            rows,
            r[-len(rows) :],
            y[-len(rows) :],
            epochs=1,
            batch_size=size,
            progress=False,
            **options,
        )

    def inner(step: int) -> None:
        if step == 1:
            with pytest.raises(RuntimeError) as refused:
                train(members(), x, 13)
            said.append(str(refused.value))

    train(members(), x, 66, callback=inner)
    for model, rows, size in ((members(), other, 13), (members(), x, 1), (normed, x, 13)):
        with pytest.raises(ValueError, match="process") as refused:
            train(model, rows, size)
        said.append(str(refused.value))
    return said


@pytest.mark.long(keep=0)
def test_what_cannot_be_shared_is_refused_in_every_process(tmp_path: Path) -> None:
    for said in in_processes(2, tmp_path, _refusals):
        assert "another thread trains a model with these processes" in said[0]
        assert "every process must be given the same rows" in said[1]
        assert "batch_size must be at least the number of processes, 2" in said[2]
        assert "BatchNorm1d would take the statistics of one process's part" in said[3]


def _killed_at(step: int, checkpoint: Path) -> Any:
    def callback(steps: int) -> None:
        if steps == step and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    return trained(members(), distributed=True, callback=callback, checkpoint=checkpoint)


@pytest.mark.long(keep=0)
def test_a_run_goes_on_after_a_process_was_killed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run"
    survivor, dead = in_processes(2, tmp_path / "killed", _killed_at, 8, checkpoint)
    assert dead is None
    with pytest.raises(WorkerLost, match="another process of this run has ended"):
        raise survivor
    unbroken, _ = in_processes(2, tmp_path / "unbroken", _killed_at, -1, tmp_path / "other")
    # It goes on at the start of the second epoch, of six steps each.
    for _, steps, weights in in_processes(2, tmp_path / "resumed", _killed_at, -1, checkpoint):
        assert torch.equal(steps, unbroken[1][6:])
        assert all(torch.equal(value, unbroken[2][key]) for key, value in weights.items())
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
        fit(GCM(3, 2).double(), *TABLE, settings=FitSettings(distributed="yes"))
