"""Several processes train as one does: the same objective and decisions, and equal weights."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.estimators.plans import build_members
from pyro_gcm.models.members import MemberSettings

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this build of torch has no torch.distributed"
)


TABLE = tuple(column.double() for column in zoo.rows(count=66)[:3])


def members(dropout: float = 0.0) -> GCM:
    settings = MemberSettings(members=3, width=6, dropout=dropout)
    with zoo.default_dtype(torch.float64):
        return build_members(settings, 3, 2, seed=1)


#: The rows of the history of a run, and its weights.
Trained = tuple[list[dict[str, Any]], dict[str, Tensor]]


def trained(model: GCM, **options: Any) -> Trained:
    rows = (options.pop("data"),) if "data" in options else TABLE
    # One row is left for the last batch of an epoch, which is fewer than there are processes.
    options = {"epochs": 3, "batch_size": 13, "seed": 3, **options}
    result = fit(model, *rows, **options, device="cpu", progress=False)
    return result.rows, model.state_dict()


def _start(
    rank: int, size: int, port: int, work: Callable[..., Any], folder: Path, *args: Any
) -> None:
    torch.set_num_threads(1)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )
    torch.distributed.init_process_group("gloo")
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
    context.set_forkserver_preload(["pytest", "pyro_gcm.models", "pyro_gcm.inference"])
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


def _without_noise() -> dict[str, Trained]:
    return {name: trained(members(), **options) for name, options in WITHOUT_NOISE.items()}


def assert_same(mine: Trained, theirs: Trained, name: str, tolerance: float = 0.0) -> None:
    for ours, other in zip(mine[0], theirs[0], strict=True):
        for key in ("loss", "validation_loss"):
            assert ours.get(key) == pytest.approx(other.get(key), abs=tolerance), name
    for key, value in mine[1].items():
        torch.testing.assert_close(value, theirs[1][key], rtol=0.0, atol=tolerance)


def test_without_noise_the_numbers_are_those_of_one_process(tmp_path: Path) -> None:
    alone = _without_noise()
    everyone = in_processes(3, tmp_path, _without_noise)
    for runs in everyone:
        assert not isinstance(runs, Exception), runs
        for name, run in runs.items():
            assert_same(run, alone[name], name, 1e-9)
            assert_same(run, everyone[0][name], name)


#: Runs that draw: z, or dropout.
WITH_NOISE: dict[str, tuple[Callable[[], GCM], dict[str, Any]]] = {
    "sampled z": (lambda: GCM(3, 2, seed=1).double(), {"num_particles": 2}),
    "Pyro's ELBO": (lambda: GCM(3, 2, seed=1).double(), {"elbo": Trace_ELBO(2)}),
    "dropout": (lambda: members(dropout=0.5), {}),
}


def _with_noise() -> dict[str, Any]:
    """Steps that leave the weights as they are, each on all rows."""
    options = {"epochs": 150, "batch_size": 66, "learning_rate": 1e-20}
    return {name: trained(make(), **options, **more) for name, (make, more) in WITH_NOISE.items()}


@pytest.mark.long
def test_losses_are_those_of_one_process_on_average(tmp_path: Path) -> None:
    alone = _with_noise()
    first, second = in_processes(2, tmp_path, _with_noise)
    assert not isinstance(first, Exception), first
    for name, run in first.items():
        assert_same(run, second[name], name)
        losses = torch.tensor([[row["loss"] for row in rows] for rows, _ in (run, alone[name])])
        spread, mean = torch.var_mean(losses.double(), 1)
        error = float((spread.sum() / losses.shape[1]).sqrt())
        assert abs(float(mean[0] - mean[1])) <= 4.5 * error, name
        assert error > 0.0, name


def _refusals() -> list[str]:
    """What is said of other rows, of small batches, and of batch norm."""
    x, r, y = TABLE
    other = torch.distributed.get_rank()
    normed, said = members(), list[str]()
    normed.encoder.add_module("norm", torch.nn.BatchNorm1d(3))
    for model, first, size in ((members(), other, 13), (members(), 0, 1), (normed, 0, 13)):
        columns = x[first:], r[first:], y[first:]
        with pytest.raises(ValueError, match=r"process|layer norm") as refused:
            fit(model, *columns, epochs=1, batch_size=size, progress=False)
        said.append(str(refused.value))
    return said


@pytest.mark.long(keep=0)
def test_what_cannot_be_shared_is_refused_in_every_process(tmp_path: Path) -> None:
    for said in in_processes(2, tmp_path, _refusals):
        assert "every process must be given the same rows" in said[0]
        assert "batch_size must be at least 2, the number of processes" in said[1]
        assert "use layer norm" in said[2]


def _killed_at(step: int, checkpoint: Path) -> Any:
    def callback(steps: int) -> None:
        if steps == step and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    return trained(members(), callback=callback, checkpoint=checkpoint)


@pytest.mark.long(keep=0)
def test_a_run_goes_on_after_a_process_was_killed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run"
    survivor, dead = in_processes(2, tmp_path / "killed", _killed_at, 8, checkpoint)
    assert dead is None
    assert isinstance(survivor, RuntimeError)
    unbroken, _ = in_processes(2, tmp_path / "unbroken", _killed_at, -1, tmp_path / "other")
    # It goes on at the start of the second epoch, of six steps each.
    for resumed in in_processes(2, tmp_path / "resumed", _killed_at, -1, checkpoint):
        assert_same(resumed, unbroken, "resumed")
    assert not checkpoint.exists()
