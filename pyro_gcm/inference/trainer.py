"""One training run: batches, steps, validation, and a state that can be saved."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.optim import Optimizer
from tqdm.auto import tqdm

from pyro_gcm.inference.checkpoint import Checkpoint
from pyro_gcm.inference.parameter_store import unannounced
from pyro_gcm.inference.training_pair import TrainingPair


class Fittable(Protocol):
    """What `fit` asks of a model: a `GCM`, an `IGCM`, or anything with the same parts."""

    x_dim: int
    r_dim: int
    reads_x: bool
    response: Any
    objective: Any  # what it was trained for last

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor) -> None:
        """Standardise as these rows ask for."""

    def check_costs(self, c: Any, r: Tensor | None, y: Tensor | None) -> Tensor:
        """Costs that were seen, NaN for the others; ValueError where there can be none."""

    def train(self, mode: bool = True) -> Any:
        """As `nn.Module.train`."""

    def training_pair(self, objective: str) -> TrainingPair:
        """The program and the guide of an objective; ValueError where it has no meaning."""

    def trained_parameters(self, objective: str) -> dict[str, torch.nn.Parameter]:
        """The parameters that an objective trains."""

    def to(self, device: torch.device) -> Any:
        """As `nn.Module.to`."""

    def state_dict(self) -> dict[str, Tensor]:
        """As `nn.Module.state_dict`."""

    def load_state_dict(self, state: dict[str, Tensor]) -> Any:
        """As `nn.Module.load_state_dict`."""


@dataclass(frozen=True)
class FitResult:
    """What training left behind; the model itself is trained in place.

    `history` has one row an epoch: epoch, step, loss, learning_rate, seconds and, with a validation
    part, validation_loss. Losses are minus the bound in nats a row, in the units of y.
    `best_epoch` is the epoch whose weights were kept, `stopped_early` whether patience ran out.
    """

    history: pd.DataFrame
    best_epoch: int
    stopped_early: bool


class Trainer:
    """The state of one training run."""

    def __init__(
        self,
        *,
        model: Fittable,
        pair: TrainingPair,
        parameters: dict[str, torch.nn.Parameter],
        bound: Any,  # an ELBO, whose losses are not in its base class
        temperature: float,
        train: list[Tensor],
        validation: list[Tensor],
        batch_size: int,
        total_steps: int,
        optimizer: Callable[..., Optimizer],
        learning_rate: float,
        schedule: Any,
        clip_norm: float | None,
        order: torch.Generator,
        seed: int,
        callback: Callable[[int], None] | None,
    ) -> None:
        self.model, self.bound, self.seed = model, bound, seed
        self.program, self.guide = pair.program, pair.guide
        if pair.shared:
            cancel = _DensitiesCancel(pair.shared)
            self.program, self.guide = cancel(self.program), cancel(self.guide)
        self.parameters = parameters
        self.train, self.validation, self.batch_size = train, validation, batch_size
        self.optimizer = optimizer(list(self.parameters.values()), lr=learning_rate)
        if schedule == "cosine":
            self.scheduler: Any = torch.optim.lr_scheduler.CosineAnnealingLR(
                self.optimizer, total_steps
            )
        else:
            self.scheduler = schedule and schedule(self.optimizer, total_steps)
        self.clip_norm, self.order, self.callback = clip_norm, order, callback
        self.identity = {
            "objective": model.objective,
            "loss": _described(bound),
            "temperature": temperature,
            "training rows": len(train[0]),
            "validation rows": len(validation[0]),
            "checksum of the rows": _checksum([*train, *validation]),
            "batch_size": batch_size,
            "seed": seed,
            "steps": total_steps,
            "learning_rate": learning_rate,
        }
        self.step, self.epoch = 0, 0
        self.rows: list[dict[str, float]] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.best_weights: dict[str, Tensor] | None = None

    def run(
        self, epochs: int, patience: int | None, saved: Checkpoint, progress: bool
    ) -> FitResult:
        """Train until `epochs`, or until patience runs out; weights of the best epoch stay."""
        stopped = False
        resumed = saved.restore()
        if self.callback is not None and not resumed:
            self.callback(0)
        with tqdm(
            total=epochs, initial=self.epoch, disable=not progress, desc="fit", unit="epoch"
        ) as bar:
            while self.epoch < epochs and not stopped:
                row = self._run_epoch(bar)
                bar.update()
                bar.set_postfix(loss=f"{row['loss']:.4f}")
                stopped = patience is not None and self.epoch - self.best_epoch >= patience
                saved.save()
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        saved.remove()
        best_epoch = self.best_epoch or self.epoch
        return FitResult(pd.DataFrame(self.rows), best_epoch, stopped)

    def _run_epoch(self, bar: Any) -> dict[str, float]:
        start = time.perf_counter()
        n = len(self.train[0])
        rate = self.optimizer.param_groups[0]["lr"]
        index = torch.randperm(n, generator=self.order).to(self.train[0].device)
        total: Tensor | float = 0.0
        for batch in index.split(self.batch_size):
            total = total + self._step([column[batch] for column in self.train])
            if self.step % 100 == 0 and not bar.disable:
                bar.set_postfix(loss=f"{float(total) / n:.4f}", step=self.step)
            if self.callback is not None:
                self.callback(self.step)
        loss = float(total) / n
        if not math.isfinite(loss):
            raise RuntimeError(
                f"the loss is {loss} in epoch {self.epoch + 1}: lower learning_rate or clip_norm"
            )
        self.epoch += 1
        row = {"epoch": self.epoch, "step": self.step, "loss": loss, "learning_rate": rate}
        if len(self.validation[0]):
            row["validation_loss"] = self._validation_loss()
            if row["validation_loss"] < self.best_loss:
                self.best_loss, self.best_epoch = row["validation_loss"], self.epoch
                self.best_weights = {k: v.clone() for k, v in self.model.state_dict().items()}
        row["seconds"] = time.perf_counter() - start
        self.rows.append(row)
        return row

    def _step(self, batch: list[Tensor]) -> Tensor:
        """One update; returns the loss summed over the batch."""
        first = self.step == 0
        self.optimizer.zero_grad(set_to_none=True)
        with pyro.validation_enabled(first):
            if hasattr(self.bound, "differentiable_loss"):
                with unannounced():
                    loss = self.bound.differentiable_loss(self.program, self.guide, *batch)
                (loss / len(batch[0])).backward()
            else:  # RenyiELBO offers nothing else, and looks for parameters in the trace
                loss = torch.as_tensor(self.bound.loss_and_grads(self.program, self.guide, *batch))
                for parameter in self.parameters.values():
                    if parameter.grad is not None:
                        parameter.grad /= len(batch[0])
        if first:
            self._check_gradients()
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip_norm)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        self.step += 1
        return loss.detach()

    def _check_gradients(self) -> None:
        missing = [name for name, p in self.parameters.items() if p.grad is None]
        if missing:
            raise RuntimeError(
                f"no gradient reached {missing} in the first step; the objective should train "
                "them. A part that is passed but not used must have requires_grad=False."
            )

    @torch.no_grad()
    def _validation_loss(self) -> float:
        """Loss a row on the validation part, with the same draws of z in every epoch."""
        device = self.validation[0].device
        total = 0.0
        with (
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
            pyro.validation_enabled(False),
            unannounced(),
        ):
            torch.manual_seed(self.seed)
            for batch in zip(*(c.split(self.batch_size) for c in self.validation), strict=True):
                total += float(self.bound.loss(self.program, self.guide, *batch))
        return total / len(self.validation[0])

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on."""
        cuda = self.train[0].device.type == "cuda"
        return {
            "identity": self.identity,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler and self.scheduler.state_dict(),
            "step": self.step,
            "epoch": self.epoch,
            "rows": self.rows,
            "best": (self.best_loss, self.best_epoch, self.best_weights),
            "order": self.order.get_state(),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state(self.train[0].device) if cuda else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        mine, theirs = self.identity, state["identity"]
        if theirs != mine:
            other = [
                f"{name} is {theirs.get(name)} there, {mine[name]} here"
                for name in mine
                if theirs.get(name) != mine[name]
            ]
            raise ValueError("checkpoint is of another run: " + ", ".join(other))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.step, self.epoch, self.rows = state["step"], state["epoch"], state["rows"]
        self.best_loss, self.best_epoch, self.best_weights = state["best"]
        self.order.set_state(state["order"].cpu())
        torch.set_rng_state(state["rng"].cpu())
        if state["cuda_rng"] is not None:
            torch.cuda.set_rng_state(state["cuda_rng"].cpu(), self.train[0].device)


def _described(bound: Any) -> str:
    """An ELBO by its class and its plain options."""
    options = {
        name: value
        for name, value in sorted(vars(bound).items())
        if isinstance(value, bool | int | float | str) and not name.startswith("_")
    }
    return f"{type(bound).__name__}{options}"


def _checksum(columns: list[Tensor]) -> int:
    total = 0
    for column in columns:
        total = zlib.crc32(column.cpu().contiguous().numpy().tobytes(), total)
    return total


class _DensitiesCancel(Messenger):
    """Where the guide draws from the program's own distribution, p / q is 1 and not computed."""

    def __init__(self, sites: tuple[str, ...]) -> None:
        super().__init__()
        self.sites = sites

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            msg["fn"] = msg["fn"].mask(False)
