"""Runs of `fit` in several processes, for the tests of workers."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.members import build_members
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.training import Trainer

#: One row is left for the last batch of an epoch, which is fewer than there are processes.
ROWS, BATCH = 131, 13
OPTIONS: dict[str, Any] = {"epochs": 3, "batch_size": BATCH, "seed": 3}


def table(rows: int = ROWS) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (x, r, y) with a binary y."""
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(rows, 3, generator=g).double(), torch.rand(rows, 2, generator=g).double()
    y = (x[:, 0] + r.sum(1) + 0.3 * torch.randn(rows, generator=g) > 1).double()
    return x, r, y


def members() -> GCM:
    """Members with dropout; 13 rows of a batch are shared as 7 and 6, and 6 is their number."""
    settings = MemberSettings(members=6, width=6, dropout=0.2)
    return build_members(settings, 3, 2, seed=1)


#: Name -> model and options of `fit`.
CASES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "prior as guide": (lambda: GCM(3, 2, seed=1), {"num_particles": 7}),
    "Sobol points": (lambda: GCM(3, 2, seed=1), {"particles": "qmc", "num_particles": 4}),
    "Pyro's handlers": (lambda: GCM(3, 2, seed=1), {"engine": "pyro", "epochs": 1}),
    "Pyro's Renyi": (lambda: GCM(3, 2, seed=1), {"elbo": "renyi", "num_particles": 3}),
    "dreg": (lambda: GCM(3, 2, seed=1, guide="posterior"), {"elbo": "dreg"}),
    "joint": (
        lambda: GCM(3, 2, seed=1, prior="standard", guide="amortised"),
        {"objective": "joint", "num_particles": 4},
    ),
    "implicit": (lambda: IGCM(3, 2, seed=1), {}),
    "members": (members, {"validation": 0.2, "patience": 2}),
    "read in every epoch": (
        members,
        {"data": [table()], "validation": 0.1},
    ),
    "weights": (members, {"sample_weight": torch.arange(1.0, ROWS + 1.0)}),
}


def losses_of(name: str, **more: Any) -> tuple[list[float], Any, dict[str, Tensor]]:
    """Mean loss of every step of a case, the result of `fit` and the weights."""
    make, options = CASES[name]
    losses: list[float] = []
    step = Trainer._step

    def noted(self: Trainer, batch: list[Tensor]) -> Tensor:
        loss = step(self, batch)
        losses.append(float(loss) / len(batch[0]))
        return loss

    Trainer._step = noted  # type: ignore[method-assign]
    try:
        model = make().double()
        rows = () if "data" in options else table()
        result = fit(model, *rows, **{**OPTIONS, **options, **more}, device="cpu", progress=False)
    finally:
        Trainer._step = step  # type: ignore[method-assign]
    return losses, result, model.state_dict()


def all_cases(distributed: bool | None) -> dict[str, Any]:
    """Everything that is compared, by case."""
    found = {}
    for name in CASES:
        losses, result, weights = losses_of(name, distributed=distributed)
        held_out = [row.get("validation_loss") for row in result.rows]
        found[name] = (losses, held_out, result.engine, result.best_epoch, weights)
    return found


def _start(
    rank: int, size: int, port: int, work: Callable[..., Any], folder: Path, *args: Any
) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
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
    context.set_forkserver_preload(["worker_runs"])
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
