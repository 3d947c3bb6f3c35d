"""A training run in plain torch: batches, steps, validation, and a state that can be saved."""

from __future__ import annotations

import copy
import math
import time
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm._utils.evaluating import HasTensors, evaluating
from pyro_gcm._utils.process_state import Randomness
from pyro_gcm.training.batches import TrainingRows
from pyro_gcm.training.checkpoint import Checkpoint, same_run, told
from pyro_gcm.training.finite_steps import Diverged, FiniteSteps, NotFinite, clip_gradients
from pyro_gcm.training.options import TrainingOptions
from pyro_gcm.training.result import FitResult
from pyro_gcm.training.updates import AveragedWeights, down
from pyro_gcm.training.workers import ALONE, Workers


class Trainer(ABC):
    """The state of one training run; a subclass defines the loss of a batch.

    The constructor does not change the model. It raises an error for a checkpoint of another run or
    an invalid optimiser; `run` trains.

    :param model: trained in place; on the device of the options.
    :param parameters: its parameters that are trained, by name.
    :param data: the rows of the training part and of the validation part.
    :param identity: further properties that identify this run in a checkpoint.
    :param workers: the processes that share every batch.
    :raises ValueError: if the checkpoint belongs to another run, or a process has other data.
    """

    def __init__(
        self,
        model: HasTensors,
        parameters: dict[str, nn.Parameter],
        options: TrainingOptions,
        data: TrainingRows,
        identity: dict[str, Any],
        workers: Workers = ALONE,
    ) -> None:
        self.model, self.parameters = model, parameters
        self.options, self.seed, self.callback = options, options.seed, options.callback
        self.training, self.validation, self.workers = data.training, data.validation, workers
        self.validates = bool(self.validation.rows)
        #: Of what torch's generators draw in the run.
        self.randomness = Randomness(options.seed, options.target)
        self.finite = FiniteSteps(parameters)
        total_steps = options.epochs * self.training.steps
        self.optimizer = options.make_optimizer(list(parameters.values()))
        known = told(model, options, data)
        self.scheduler = options.make_scheduler(self.optimizer, total_steps)
        kind = type(self.scheduler).__name__
        self.identity = {**identity, "steps": total_steps, "scheduler": kind, **known}
        workers.check(model, min(options.batch_size, self.training.rows))
        # The other processes have the first one's: there need not be a file where they are.
        self.saved = Checkpoint(options.checkpoint if workers.rank == 0 else None)
        self.saved_state = workers.from_first(self.saved.read)
        if self.saved_state is not None:
            with self.saved.undamaged(ValueError):
                same_run(self.saved_state["identity"], self.identity)
        self.step, self.epoch = 0, 0
        self.rows: list[dict[str, float]] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.best_weights: dict[str, Any] | None = None
        #: What is validated and kept in the place of the weights of one step, if it is.
        self.average: AveragedWeights | None = None
        if options.keeps_averages:
            self.average = AveragedWeights(parameters.values(), self.training.steps)

    #: Whether the rows are those that the user gave, so that errors can number them.
    numbers_rows = True

    @abstractmethod
    def backward(self, batch: list[Tensor]) -> Tensor:
        """Compute the gradients of the mean loss of a batch; return the sum over its rows."""

    @abstractmethod
    def loss(self, batch: list[Tensor]) -> float:
        """The validation loss of a batch, summed over its rows, in evaluation mode."""

    def run(self) -> FitResult:
        """Train all epochs, or until patience is exceeded, and keep the weights of the best epoch.

        :raises Diverged: if loss, gradient or weights are not finite.
        :raises RuntimeError: if a parameter has no gradient.
        :raises WorkerLost: if another process has ended.
        :raises OSError: if the checkpoint cannot be written.
        """
        from tqdm.auto import tqdm

        # A large block that is freed: glibc then keeps what a step frees for the next one, in place
        # of handing it back to the system page by page, which took a tenth of the time.
        torch.empty(1 << 24, dtype=torch.uint8)
        epochs, patience = self.options.epochs, self.options.patience
        self.workers.broadcast_state(
            self.model.state_dict(), {**self.identity, "patience": patience}
        )
        if self.saved_state is not None:
            with self.saved.undamaged():
                self.load_state(self.saved_state)
        else:
            self._save()  # which shows that it can be written
            self._call_back()
        hidden = not self.options.progress or self.workers.rank > 0
        with tqdm(
            total=epochs, initial=self.epoch, desc="fit", unit="epoch", disable=hidden
        ) as bar:
            while self.epoch < epochs and not self._has_stopped:
                row = self._run_epoch(bar)
                bar.update()
                bar.set_postfix(loss=f"{row['loss']:.4f}")
                self._save()
            if self.validation.rows:
                if self.best_weights is None:
                    raise Diverged("the loss of the validation rows is inf in every epoch")
                self.model.load_state_dict(self.best_weights)
            elif self.average is not None:
                self.average.keep()
            self.stopped_early = self._has_stopped
            if last := self.last_epochs():
                self._train_on(last, bar)
        self.saved.remove()
        return FitResult(self.rows, self.best_epoch or self.epoch, self.stopped_early)

    def last_epochs(self) -> int:
        """How many epochs on other terms follow from the weights that were kept; 0 by default."""
        return 0

    def _train_on(self, epochs: int, bar: Any) -> None:
        """Train on, down to a learning rate of 0, without validation.

        No file is written: a run that goes on repeats these epochs.
        """
        self.scheduler = down(self.optimizer, epochs * self.training.steps)
        self.validates, self.average, saved = False, None, self.saved
        self.saved = Checkpoint(None)
        for _ in range(epochs):
            row = self._run_epoch(bar)
            bar.set_postfix(loss=f"{row['loss']:.4f}")
        self.saved = saved

    @property
    def _has_stopped(self) -> bool:
        """Whether the best epoch is too long ago."""
        patience = self.options.patience
        return patience is not None and self.epoch - self.best_epoch >= patience

    def _save(self) -> None:
        if self.saved.path is not None:
            self.saved.save(self.state())

    def _run_epoch(self, bar: Any) -> dict[str, float]:
        start, rate = time.perf_counter(), self.optimizer.param_groups[0]["lr"]
        n, before, kept = self.training.rows, self.step, self._weights()
        total: Tensor | float = 0.0
        try:
            for batch in self.training.epoch(self.epoch):
                total = total + self._step(batch)
                if self.step % 100 == 0 and not bar.disable:
                    done = min(n, (self.step - before) * self.options.batch_size)
                    bar.set_postfix(loss=f"{float(total) / done:.4f}", rows=f"{done:,}/{n:,}")
                self._call_back()
            self.finite.read()
            self.finite.check_weights(self.step - 1)
        except NotFinite as found:
            self.model.load_state_dict(kept)
            raise Diverged(self._diverged(found, found.step - before)) from None
        self.epoch += 1
        row = {"epoch": self.epoch, "step": self.step, "loss": float(total) / n}
        row["learning_rate"] = rate
        if self.validates:
            row["validation_loss"] = self._validate()
        row["seconds"] = time.perf_counter() - start
        self.rows.append(row)
        return row

    def _call_back(self) -> None:
        """Call the user's function between two steps; it may raise, and so interrupt the run."""
        if self.callback is not None:
            self.callback(self.step)

    def _diverged(self, found: NotFinite, batch: int) -> str:
        """The message about a step that is not finite, number `batch` of its epoch."""
        place = f"batch {batch + 1} of {self.training.steps} in epoch {self.epoch + 1}"
        if self.numbers_rows:
            rows = self.training.origin(self.epoch, batch)
            shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            place += f" (rows {shown})"
        kept = f"of epoch {self.epoch}" if self.epoch else "that it had before"
        advice = "lower learning_rate or clip_norm"
        return f"{found} in {place}. The model has the weights {kept}: {advice}"

    @torch.no_grad()
    def _validate(self) -> float:
        """Mean loss over the validation rows, with the same draws every epoch; the best is kept."""
        total = torch.zeros((), dtype=torch.float64, device=self.options.target)
        drawn = Randomness(self.workers.seed(self.seed, 0), self.options.target)
        with nullcontext() if self.average is None else self.average.in_place():
            with drawn.in_use(), evaluating(self.model):
                for batch in self.validation.epoch(self.epoch):
                    own = self.workers.part(batch)
                    if len(own[0]):
                        total += self.loss(own)
            self.workers.add(total)
            loss = float(total) / self.validation.rows
            if math.isnan(loss):
                raise Diverged(f"the loss of the validation rows is nan in epoch {self.epoch}")
            if loss < self.best_loss:
                self.best_loss, self.best_epoch = loss, self.epoch
                self.best_weights = self._weights()
        return loss

    def _weights(self) -> dict[str, Any]:
        """A copy of the state of the model."""
        state = self.model.state_dict()
        return {
            k: v.clone() if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in state.items()
        }

    def _step(self, batch: list[Tensor]) -> Tensor:
        """Make one update; return the loss summed over the batch."""
        own, are_several = self.workers.part(batch), self.workers.size > 1
        if are_several:  # so that a run that goes on needs nothing of the other processes
            seed = self.workers.seed(self.seed, self.step)
            self.randomness = Randomness(seed, self.options.target)
        with self.randomness.in_use():
            for parameter in self.parameters.values():
                parameter.grad = None
            if len(own[0]):
                loss = self.backward(own).detach()
            else:
                loss = next(iter(self.parameters.values())).new_zeros(())
            if self.step == 0:
                self._check_gradients()
            if are_several:
                self._add_up(loss, len(own[0]) / len(batch[0]))
            norm = clip_gradients(self.parameters.values(), self.options.clip_norm)
            self.finite.add(self.step, loss, norm)
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.step += 1
            if self.average is not None:
                self.average.update(self.step)
            return loss

    def _add_up(self, loss: Tensor, share: float) -> None:
        """Loss and gradient of the batch from those of the processes, which have shares of it."""
        for parameter in self.parameters.values():
            if parameter.grad is None:  # another process may have one
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        torch._foreach_mul_(gradients, share)
        self.workers.add(*gradients, loss)

    def _check_gradients(self) -> None:
        there = [p.grad is not None for p in self.parameters.values()]
        found = torch.tensor(there, dtype=torch.float32, device=self.options.target)
        self.workers.add(found)
        missing = [name for name, n in zip(self.parameters, found.tolist(), strict=True) if not n]
        if missing:
            raise RuntimeError(
                f"no gradient reached {missing} in the first step, although the objective should "
                "train them. Set requires_grad=False for parameters that are not used."
            )

    def state(self) -> dict[str, Any]:
        """The state on which the next epoch depends."""
        return {
            "identity": self.identity,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler and self.scheduler.state_dict(),
            "rows": self.rows,
            "best": (self.best_loss, self.best_epoch, self.best_weights),
            "average": self.average and self.average.mean,
            "order": self.training.state(),
            "rng": self.randomness.cpu,
            "cuda_rng": self.randomness.cuda,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state of this run."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.rows, self.epoch = state["rows"], len(state["rows"])
        self.step = self.epoch * self.training.steps
        self.best_loss, self.best_epoch, self.best_weights = state["best"]
        if self.average is not None:
            for mean, value in zip(self.average.mean, state["average"], strict=True):
                mean.copy_(value)
        self.training.load(state["order"])
        self.randomness.cpu, self.randomness.cuda = state["rng"], state["cuda_rng"]
