"""A training run in plain torch: batches, steps, validation, and a state that can be saved."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pyro_gcm._interrupts import interruption_point, unshielded
from pyro_gcm._process_state import Randomness, exclusively
from pyro_gcm.training.averaging import AveragedWeights
from pyro_gcm.training.batches import batches
from pyro_gcm.training.checkpoint import Checkpoint, checksum
from pyro_gcm.training.clipping import clip_gradients
from pyro_gcm.training.finite import Diverged, FiniteSteps, NotFinite
from pyro_gcm.training.options import TrainingOptions
from pyro_gcm.training.schedules import scale_rates

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FitResult:
    """The result of training; the model itself is trained in place.

    :param rows: the rows of `history`.
    :param best_epoch: the epoch whose weights were kept.
    :param stopped_early: whether training stopped because `patience` was exceeded.
    :param engine: what made the steps: "plain", torch alone, or "pyro", the handlers of Pyro.
    :param engine_reason: why that engine.
    """

    rows: list[dict[str, float]] = field(repr=False)
    best_epoch: int
    stopped_early: bool
    engine: str = "plain"
    engine_reason: str = ""

    @cached_property
    def history(self) -> pd.DataFrame:
        """One row per epoch: epoch, step, loss, learning_rate, seconds, maybe validation_loss.

        Losses are means over rows: minus the bound in nats, in the units of y, or the loss of a
        baseline, in standardised units of y. `validation_loss` is there with a validation part.
        """
        import pandas as pd  # whose import takes as long as a short fit

        return pd.DataFrame(self.rows)


class Trainer(ABC):
    """The state of one training run; a subclass defines the loss of a batch.

    The constructor does not change the model. It raises an error for a checkpoint of another run or
    an invalid optimiser; `run` trains.

    :param model: trained in place; on the device of the options.
    :param parameters: its parameters that are trained, by name.
    :param columns: the data, tensors with one row per datum.
    :param parts: row indices of the training part and of the validation part.
    :param order: generator of the order of the rows in every epoch.
    :param identity: further properties that identify this run in a checkpoint.
    :raises ValueError: if the checkpoint belongs to another run.
    """

    def __init__(
        self,
        model: Any,  # a module, or something with its state_dict and load_state_dict
        parameters: dict[str, nn.Parameter],
        options: TrainingOptions,
        columns: list[Tensor],
        parts: tuple[Tensor, Tensor],
        order: torch.Generator,
        identity: dict[str, Any],
    ) -> None:
        self.model, self.parameters = model, parameters
        self.order = order
        #: Of what torch's generators draw in the run.
        self.randomness = Randomness(options.seed, options.target)
        self.finite = FiniteSteps(parameters)
        self.columns = [column.to(options.target) for column in columns]
        self.train, self.validation = (part.to(options.target) for part in parts)
        self.options, self.seed, self.batch_size = options, options.seed, options.batch_size
        self.clip_norm, self.callback = options.clip_norm, options.callback
        total_steps = options.steps(len(parts[0]))
        self.optimizer = options.make_optimizer(list(parameters.values()))
        self.scheduler = options.make_scheduler(self.optimizer, total_steps)
        self.identity = {
            **identity,
            "training rows": len(parts[0]),
            "validation rows": len(parts[1]),
            # Only a file is compared with it.
            "checksum of the rows": options.checkpoint and checksum(self.columns),
            "batch_size": options.batch_size,
            "seed": options.seed,
            "steps": total_steps,
            "learning_rate": options.learning_rate,
            "optimizer": type(self.optimizer).__name__,
            "scheduler": type(self.scheduler).__name__,
            "clip_norm": options.clip_norm,
            "averaged weights": options.patience is not None,
            **{f"shape of {k}": list(v.shape) for k, v in model.state_dict().items()},
        }
        self.saved = Checkpoint(options.checkpoint)
        self.saved_state = self.saved.read()
        if self.saved_state is not None:
            _same_run(self.saved_state["identity"], self.identity)
        self.step, self.epoch = 0, 0
        self.rows: list[dict[str, float]] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.best_weights: dict[str, Tensor] | None = None
        #: What is validated and kept with patience, in the place of the weights of one step.
        self.average: AveragedWeights | None = None
        if options.patience is not None:
            steps_of_epoch = total_steps // options.epochs
            self.average = AveragedWeights(parameters.values(), steps_of_epoch)

    #: Whether the rows are those that the user gave, so that errors can number them.
    numbers_rows = True
    #: What makes the steps, and why; see `FitResult`.
    engine, engine_reason = "plain", "a baseline is trained by torch alone"

    def prepare(self, rows: list[Tensor]) -> list[Tensor]:
        """The columns of a batch from those of the data, for the rows of many batches at once."""
        return rows

    @abstractmethod
    def backward(self, batch: list[Tensor]) -> Tensor:
        """Compute the gradients of the mean loss of a batch; return the sum over its rows."""

    @abstractmethod
    def held_out_loss(self, batch: list[Tensor]) -> float:
        """Loss of a batch of the validation part, summed over its rows."""

    def run(self) -> FitResult:
        """Train all epochs, or until patience is exceeded, and keep the weights of the best epoch.

        :raises Diverged: if loss, gradient or weights are not finite.
        :raises RuntimeError: if a parameter has no gradient.
        :raises OSError: if the checkpoint cannot be written.
        """
        from tqdm.auto import tqdm

        epochs, patience = self.options.epochs, self.options.patience
        stopped = False
        if self.saved_state is not None:
            self.load_state(self.saved_state)
        else:
            self._save()  # which shows that it can be written
            self._call_back()
        shown = {"desc": "fit", "unit": "epoch", "disable": not self.options.progress}
        with tqdm(total=epochs, initial=self.epoch, **shown) as bar:
            while self.epoch < epochs and not stopped:
                row = self._run_epoch(bar)
                bar.update()
                bar.set_postfix(loss=f"{row['loss']:.4f}")
                stopped = patience is not None and self.epoch - self.best_epoch >= patience
                self._save()
        if len(self.validation):
            if self.best_weights is None:
                raise Diverged("the loss of the validation rows is inf in every epoch")
            self.model.load_state_dict(self.best_weights)
        self.saved.remove()
        best_epoch = self.best_epoch or self.epoch
        return FitResult(self.rows, best_epoch, stopped, self.engine, self.engine_reason)

    def _save(self) -> None:
        if self.saved.path is not None:
            self.saved.save(self.state())

    def _run_epoch(self, bar: Any) -> dict[str, float]:
        start, before = time.perf_counter(), self.step
        n = len(self.train)
        rate = self.optimizer.param_groups[0]["lr"]
        index = self.train[torch.randperm(n, generator=self.order).to(self.train.device)]
        good = {name: value.clone() for name, value in self.model.state_dict().items()}
        total: Tensor | float = 0.0
        try:
            for batch in batches(self.columns, index, self.batch_size, self.prepare):
                total = total + self._step(batch)
                if self.step % 100 == 0 and not bar.disable:
                    bar.set_postfix(loss=f"{float(total) / n:.4f}", step=self.step)
                self._call_back()
            self.finite.read()
            self.finite.check_weights(self.step - 1)
        except NotFinite as found:
            self.model.load_state_dict(good)
            raise Diverged(self._diverged(found, found.step - before, index)) from None
        loss = float(total) / n
        self.epoch += 1
        row = {"epoch": self.epoch, "step": self.step, "loss": loss, "learning_rate": rate}
        if len(self.validation):
            row["validation_loss"] = self._validate()
        row["seconds"] = time.perf_counter() - start
        self.rows.append(row)
        return row

    def _call_back(self) -> None:
        """What the user wants to happen between two steps; an interrupt among others."""
        if self.callback is None:
            interruption_point()
        else:
            with unshielded():
                self.callback(self.step)

    def _diverged(self, found: NotFinite, batch: int, index: Tensor) -> str:
        """What to say of a step that is not finite, the number `batch` of those of an epoch."""
        batches_of_epoch = math.ceil(len(index) / self.batch_size)
        place = f"batch {batch + 1} of {batches_of_epoch} in epoch {self.epoch + 1}"
        if self.numbers_rows:
            rows = index[batch * self.batch_size : (batch + 1) * self.batch_size].tolist()
            shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            place += f" (rows {shown})"
        kept = f"of epoch {self.epoch}" if self.epoch else "that it had before"
        advice = "lower learning_rate or clip_norm"
        if self.saved.path is not None:
            advice += f"; with a lower learning_rate, training goes on from {self.saved.path}"
        return f"{found} in {place}. The model has the weights {kept}: {advice}"

    def _validate(self) -> float:
        """The loss on the validation part, whose best weights are kept."""
        # Whoever predicts meanwhile in another thread does not meet the averages.
        with exclusively(), nullcontext() if self.average is None else self.average.in_place():
            loss = self._validation_loss()
            if math.isnan(loss):
                raise Diverged(f"the loss of the validation rows is nan in epoch {self.epoch}")
            if loss < self.best_loss:
                self.best_loss, self.best_epoch = loss, self.epoch
                self.best_weights = {k: v.clone() for k, v in self.model.state_dict().items()}
        return loss

    def _step(self, batch: list[Tensor]) -> Tensor:
        """Make one update; return the loss summed over the batch."""
        with self.randomness.in_use():
            for parameter in self.parameters.values():
                parameter.grad = None
            loss = self.backward(batch).detach()
            if self.step == 0:
                self._check_gradients()
            norm = clip_gradients(self.parameters.values(), self.clip_norm)
            self.finite.add(self.step, loss, norm)
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.step += 1
            if self.average is not None:
                self.average.update(self.step)
            return loss

    def _check_gradients(self) -> None:
        missing = [name for name, p in self.parameters.items() if p.grad is None]
        if missing:
            raise RuntimeError(
                f"no gradient reached {missing} in the first step, although the objective should "
                "train them. Set requires_grad=False for parameters that are not used."
            )

    @torch.no_grad()
    def _validation_loss(self) -> float:
        """Mean loss over the validation rows, with the same random numbers in every epoch."""
        with Randomness(self.seed, self.validation.device).in_use():
            parts = batches(self.columns, self.validation, self.batch_size, self.prepare)
            total = sum(self.held_out_loss(batch) for batch in parts)
        return total / len(self.validation)

    def state(self) -> dict[str, Any]:
        """The state on which the next epoch depends."""
        return {
            "identity": self.identity,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler and self.scheduler.state_dict(),
            "step": self.step,
            "epoch": self.epoch,
            "rows": self.rows,
            "best": (self.best_loss, self.best_epoch, self.best_weights),
            "average": self.average and self.average.mean,
            "order": self.order.get_state(),
            "rng": self.randomness.cpu,
            "cuda_rng": self.randomness.cuda,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state of this run."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        mine, theirs = self.identity["learning_rate"], state["identity"]["learning_rate"]
        if mine != theirs:
            scale_rates(self.optimizer, self.scheduler, mine / theirs)
        self.step, self.epoch, self.rows = state["step"], state["epoch"], state["rows"]
        self.best_loss, self.best_epoch, self.best_weights = state["best"]
        if self.average is not None:
            for mean, value in zip(self.average.mean, state["average"], strict=True):
                mean.copy_(value)
        self.order.set_state(state["order"].cpu())
        self.randomness.cpu, self.randomness.cuda = state["rng"], state["cuda_rng"]


def described(part: Any) -> str:
    """The class and the scalar attributes of a bound or a model, to identify it in a checkpoint."""
    options = {
        name: value
        for name, value in sorted(vars(part).items())
        if isinstance(value, bool | int | float | str) and not name.startswith("_")
    }
    return f"{type(part).__name__}{options}"


def _same_run(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    if theirs["learning_rate"] > mine["learning_rate"]:  # a run that diverged may go on so
        theirs = {**theirs, "learning_rate": mine["learning_rate"]}
    other = [
        f"{name} is {theirs.get(name)} there, {mine.get(name)} here"
        for name in {**mine, **theirs}
        if theirs.get(name) != mine.get(name)
    ]
    if other:
        raise ValueError("checkpoint is of another run: " + ", ".join(other[:5]))
