"""Training: mini-batches of one data set, any Pyro bound, any torch optimiser."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyro
import torch
from pyro.infer import ELBO, RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.optim import Optimizer
from tqdm.auto import tqdm

from pyro_gcm._validation import (
    ArrayLike,
    matrix,
    one_of,
    positive,
    positive_int,
    same_rows,
    vector,
)
from pyro_gcm.inference.checkpoint import Checkpoint
from pyro_gcm.inference.collapse import Program, conditional
from pyro_gcm.inference.importance_weighted_elbo import ImportanceWeightedELBO
from pyro_gcm.inference.parameter_store import unannounced

_ELBOS: dict[str, Callable[..., ELBO]] = {
    "iwae": ImportanceWeightedELBO,
    "elbo": Trace_ELBO,
    "mean_field": TraceMeanField_ELBO,
    "renyi": RenyiELBO,
}
_OBJECTIVES: dict[str, Callable[[Program], Program]] = {"conditional": conditional}


class Fittable(Protocol):
    """What `fit` asks of a model: a `GCM`, or anything with the same parts."""

    x_dim: int
    r_dim: int
    reads_x: bool
    z_guide: Any  # None where the prior itself is the guide
    response: Any
    x_standardizer: Any
    r_standardizer: Any

    def model(self, x: Tensor, r: Tensor, y: Tensor) -> Any: ...
    def guide(self, x: Tensor, r: Tensor, y: Tensor) -> Any: ...
    def trained_parameters(self, objective: str) -> dict[str, torch.nn.Parameter]: ...
    def to(self, device: torch.device) -> Any: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state: dict[str, Tensor]) -> Any: ...


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


def fit(
    model: Fittable,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    objective: str = "conditional",
    elbo: str | ELBO | None = None,
    num_particles: int = 32,
    standardize: bool = True,
    epochs: int = 100,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    optimizer: Callable[..., Optimizer] | None = None,
    schedule: Callable[[Optimizer, int], Any] | str | None = "cosine",
    clip_norm: float | None = 10.0,
    validation: float = 0.0,
    patience: int | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
    checkpoint: str | Path | None = None,
    callback: Callable[[int], None] | None = None,
) -> FitResult:
    """Train a model on rows (x, r, y) in the units of the data.

    The rows are put on the device once and visited in a new random order every epoch. All
    randomness comes from `seed`; torch's global generators are left as they were.

    :param model: a `GCM`; trained in place and moved to the device.
    :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n].
    :param objective: "conditional", log p(y | x, r).
    :param elbo: "iwae", "elbo", "mean_field", "renyi" or any Pyro ELBO; by default the one that suits
        the response: "elbo" for quantiles, "iwae" otherwise.
    :param num_particles: draws of z for each row and step, unless `elbo` is an object.
    :param standardize: learn the units of x, r and y from the training rows.
    :param learning_rate: of the optimiser at the start.
    :param optimizer: function (parameters, lr=...) -> optimiser; torch's Adam by default.
    :param schedule: "cosine" (down to 0), None, or a function (optimiser, total steps) -> a
        scheduler that is stepped after every batch.
    :param clip_norm: bound on the norm of the gradient, or None.
    :param validation: share of the rows, drawn with `seed`, kept for early stopping; the weights of
        the epoch with the lowest loss on them are kept.
    :param patience: epochs without improvement after which training stops; needs `validation`.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param progress: show a progress bar with the loss.
    :param checkpoint: file that holds the state after every epoch; if it exists, training goes on
        from there to the same numbers as an uninterrupted run. Removed at the end.
    :param callback: called with the number of steps done, before the first and after every step.
    :raises ValueError: for wrong shapes, values or options, before any work is done.
    :raises RuntimeError: if a parameter that the objective trains gets no gradient in the first
        step, or the loss is not finite.
    """
    one_of("objective", objective, list(_OBJECTIVES))
    bound = _bound(elbo or model.response.default_elbo, num_particles)
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    if not 0.0 <= validation < 1.0:
        raise ValueError(f"validation must be a share in [0, 1), got {validation}")
    positive("learning_rate", learning_rate)
    if clip_norm is not None:
        positive("clip_norm", clip_norm)
    seed = positive_int("seed", seed, minimum=0)
    if optimizer is not None and not callable(optimizer):
        raise TypeError(f"optimizer must be a function (parameters, lr=...), got {optimizer!r}")
    if patience is not None:
        positive_int("patience", patience)
    if patience is not None and validation == 0.0:
        raise ValueError("patience needs a validation part: pass validation=0.1, say")
    if schedule is not None and not callable(schedule):
        one_of("schedule", schedule, ["cosine"])
    target = _device(device)
    data = _training_data(model, x, r, y)
    if not model.reads_x:
        warnings.warn(
            "prior='standard' under the conditional objective is the paper's literal loss: its "
            "optimum ignores x, so predictions follow r alone. Use prior='conditional' to learn "
            "p(y | x, r).",
            stacklevel=2,
        )
    with (
        torch.random.fork_rng(devices=[target] if target.type == "cuda" else []),
        # Whatever a program announces does not stay behind in Pyro's global store.
        pyro.get_param_store().scope(),
    ):
        torch.manual_seed(seed)
        order = torch.Generator().manual_seed(seed)
        held_out = int(round(validation * len(data[0])))
        if validation > 0.0 and not 0 < held_out < len(data[0]):
            raise ValueError(f"validation={validation} leaves no rows in one of the parts")
        rows = torch.randperm(len(data[0]), generator=order)
        train = [column[rows[held_out:]] for column in data]
        if standardize:
            model.x_standardizer.learn(train[0])
            if model.response.standardizes_revenue:
                model.r_standardizer.learn(train[1])
            model.response.learn_unit(train[2])
        model.to(target)
        trainer = _Trainer(
            model=model,
            objective=objective,
            bound=bound,
            train=[column.to(target) for column in train],
            validation=[column[rows[:held_out]].to(target) for column in data],
            batch_size=batch_size,
            total_steps=epochs * math.ceil(len(train[0]) / batch_size),
            optimizer=optimizer or partial(torch.optim.Adam, fused=True),
            learning_rate=learning_rate,
            schedule=schedule,
            clip_norm=clip_norm,
            order=order,
            seed=seed,
            callback=callback,
        )
        saved = Checkpoint(checkpoint, trainer.state, trainer.load_state)
        return trainer.run(epochs, patience, saved, progress)


class _Trainer:
    """The state of one training run."""

    def __init__(
        self,
        *,
        model: Fittable,
        objective: str,
        bound: ELBO,
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
        self.program, self.guide = _OBJECTIVES[objective](model.model), model.guide
        if model.z_guide is None:
            cancel = _DensitiesCancel()
            self.program, self.guide = cancel(self.program), cancel(self.guide)
        self.parameters = model.trained_parameters(objective)
        self.train, self.validation, self.batch_size = train, validation, batch_size
        self.optimizer = optimizer(list(self.parameters.values()), lr=learning_rate)
        if schedule == "cosine":
            self.scheduler: Any = torch.optim.lr_scheduler.CosineAnnealingLR(
                self.optimizer, total_steps
            )
        else:
            self.scheduler = schedule and schedule(self.optimizer, total_steps)
        self.clip_norm, self.order, self.callback = clip_norm, order, callback
        self.step, self.epoch = 0, 0
        self.rows: list[dict[str, float]] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.best_weights: dict[str, Tensor] | None = None

    def run(
        self, epochs: int, patience: int | None, saved: Checkpoint, progress: bool
    ) -> FitResult:
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
                loss = torch.as_tensor(
                    self.bound.loss_and_grads(self.program, self.guide, *batch)
                )
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
                f"no gradient reached {missing} in the first step; the objective should train them. "
                "A part that is passed but not used must have requires_grad=False."
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
            "shape": [len(self.train[0]), len(self.validation[0]), self.batch_size, self.seed],
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
        mine = [len(self.train[0]), len(self.validation[0]), self.batch_size, self.seed]
        if state["shape"] != mine:
            raise ValueError(
                "checkpoint is of another run: [training rows, validation rows, batch_size, seed] "
                f"are {state['shape']} there and {mine} here"
            )
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


class _DensitiesCancel(Messenger):
    """Where the guide is the prior, p(z|x) / q(z|x) is 1 and need not be computed."""

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == "z":
            msg["fn"] = msg["fn"].mask(False)


def _bound(elbo: str | ELBO, num_particles: int) -> ELBO:
    if isinstance(elbo, ELBO):
        return elbo
    one_of("elbo", elbo, list(_ELBOS))
    particles = positive_int("num_particles", num_particles)
    if elbo == "renyi" and particles < 2:
        raise ValueError("num_particles must be at least 2 for elbo='renyi'")
    # One plate of rows: told so, Pyro need not run the program once more to find out.
    return _ELBOS[elbo](num_particles=particles, max_plate_nesting=1, vectorize_particles=True)


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is not a device of torch: {error}") from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={str(device)!r} was asked for, but torch sees no CUDA device")
    return resolved


def _training_data(model: Fittable, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> list[Tensor]:
    """Checked rows on the CPU or the device they came on."""
    data = {
        "x": matrix("x", x, model.x_dim, "x_dim"),
        "r": matrix("r", r, model.r_dim, "r_dim"),
        "y": vector("y", y),
    }
    same_rows(**data)
    model.response.check_revenue(data["r"])
    model.response.check_outcome(data["y"])
    return [column.cpu() for column in data.values()]
