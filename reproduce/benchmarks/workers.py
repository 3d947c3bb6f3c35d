"""Training in several processes beside one: the scores and the seconds.

    python -m reproduce.benchmarks.workers

Every run is one of `torchrun` on this machine, over loopback, with one thread a process. It prints

- the held-out AUC of members in float32, over five seeds, beside the spread of the seeds;
- the seconds of an epoch, which can be less only where there are idle cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from pyro_gcm import fit
from pyro_gcm.members import build_members
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.training import gathered
from reproduce.arguments import positive_count

#: Rows of the simulated table, of its held-out part, and columns of x and r.
ROWS, HELD_OUT, X_DIM, R_DIM = 20_000, 10_000, 10, 3


def table(rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A binary outcome of two revenues of which either is enough, and of many covariates."""
    g = torch.Generator().manual_seed(seed)
    x, r = torch.randn(rows, X_DIM, generator=g), torch.rand(rows, R_DIM, generator=g)
    enough = torch.maximum(r[:, 0], r[:, 1] * r[:, 2])
    score = 4.0 * (enough - 0.5) + x[:, 0] * x[:, 1] + torch.sin(2.0 * x[:, 2])
    return x, r, (torch.rand(rows, generator=g) < torch.sigmoid(score)).float()


def worker(job: dict[str, Any]) -> None:
    """One process of a run, which `torchrun` or this script has started."""
    torch.set_num_threads(1)
    rank, folder = int(os.environ.get("RANK", "0")), Path(job["folder"])
    (folder / f"pid {rank}").write_text(str(os.getpid()))
    settings = MemberSettings.for_table(ROWS, X_DIM, R_DIM)
    model = build_members(settings, X_DIM, R_DIM, seed=job["seed"])

    def noted(steps: int) -> None:
        (folder / f"training {rank}").write_text("." * steps)

    options = {**settings.training(model)._asdict(), **job["options"], "callback": noted}
    options |= {"seed": job["seed"], "device": "cpu", "progress": False}
    began = time.perf_counter()
    result = fit(model, *table(ROWS, 0), **gathered(options))
    seconds = time.perf_counter() - began
    if rank == 0:
        x, r, y = table(HELD_OUT, 1)
        auc = float(roc_auc_score(y, model.predict(x, r)))
        weights = {k: v for k, v in model.state_dict().items() if isinstance(v, Tensor)}
        told = {"rows": result.rows, "seconds": seconds, "auc": auc, "weights": weights}
        torch.save(told, folder / "told")


def start(size: int, job: dict[str, Any]) -> tuple[subprocess.Popen[str], Path]:
    """Start a run; returns it and its folder."""
    folder = Path(tempfile.mkdtemp(prefix="workers "))
    text = json.dumps({**job, "folder": str(folder)})
    alone = [sys.executable, "-m", "reproduce.benchmarks.workers", "--job", text]
    many = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    many += [f"--nproc-per-node={size}", *alone[1:]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = alone if size == 1 else many
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=environment, **pipes), folder


def run(size: int, **job: Any) -> dict[str, Any]:
    """What a run tells; size 1 is one process without `torchrun`."""
    process, folder = start(size, job)
    said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(said)
    told: dict[str, Any] = torch.load(folder / "told")
    return told


def scores(seeds: int) -> None:
    """Held-out AUC in float32, and seconds of an epoch."""
    found: dict[int, list[dict[str, Any]]] = {}
    for size in (1, 2, 4):
        options = {"distributed": True if size > 1 else None}
        found[size] = [run(size, seed=seed, options=options) for seed in range(seeds)]
    one = np.array([told["auc"] for told in found[1]])
    print(f"AUC of members, float32, {seeds} seeds: {one.mean():.5f}, sd {one.std(ddof=1):.5f}")
    for size in (2, 4):
        auc = np.array([told["auc"] for told in found[size]])
        ratio = np.median(
            [b["seconds"] / a["seconds"] for a, b in zip(found[1], found[size], strict=True)]
        )
        print(
            f"  {size} processes beside 1: largest difference {np.abs(auc - one).max():.5f}; "
            f"seconds {ratio:.2f} x",
            flush=True,
        )


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.benchmarks.workers")
    parser.add_argument("--seeds", type=positive_count, default=5)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job is not None:
        worker(json.loads(arguments.job))
        return
    scores(arguments.seeds)


if __name__ == "__main__":
    main()
