"""The loop of every training: batches, steps, validation, the best weights, a checkpoint."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import HasTensors, Randomness, evaluating
from pyro_gcm.training.batches import Batches
from pyro_gcm.training.checkpoint import Checkpoint
from pyro_gcm.training.finite import Diverged, clip_gradients, not_finite
from pyro_gcm.training.options import TrainingOptions
from pyro_gcm.training.result import FitResult
from pyro_gcm.training.updates import AveragedWeights
from pyro_gcm.training.workers import Workers

#: Function of a batch.
OfBatch = Callable[[list[Tensor]], Tensor]


class Training:
    """One training of a model.

    :param model: trained in place; on the device of the options.
    :param parameters: its parameters that are trained, by name.
    :param loss: the loss of a batch, summed over its rows, to be differentiated; or one that cannot
        be, and has left its gradient in the parameters.
    :param score: the validation loss of a batch, summed over its rows, in evaluation mode.
    :param rows: of which steps are made; `held_out`: that are validated on, maybe none.
    :param given: further options, in plain data, which a checkpoint must have been given too.
    :param numbers_rows: whether rows are those that the user gave, so that errors can number them.
    :raises ValueError: for a checkpoint of another training.
    """

    def __init__(
        self,
        model: HasTensors,
        parameters: Mapping[str, nn.Parameter],
        loss: OfBatch,
        score: OfBatch,
        rows: Batches,
        held_out: Batches,
        options: TrainingOptions,
        given: dict[str, Any],
        *,
        numbers_rows: bool = True,
    ) -> None:
        if options.patience is not None and not held_out.rows:
            raise ValueError("patience needs a validation part: pass validation=0.1, say")
        self.model, self.parameters, self.loss, self.score = model, parameters, loss, score
        self.rows, self.held_out, self.options = rows, held_out, options
        self.numbers_rows, self.workers = numbers_rows, Workers()
        self.weights = list(parameters.values())
        #: Of what torch's generators draw.
        self.randomness = Randomness(self.workers.seed(options.seed), options.target)
        self.optimizer = options.make_optimizer(self.weights)
        self.scheduler = options.make_scheduler(self.optimizer, options.epochs * rows.steps)
        sizes = {"model": type(model).__name__, "rows": rows.rows, "held out": held_out.rows}
        sizes["parameters"] = sum(weight.numel() for weight in self.weights)
        self.given = {**sizes, **given, **options.given}
        self.saved = Checkpoint(options.checkpoint if not self.workers.rank else None, self.given)
        self.saved_state = self.workers.from_first(self.saved.read())
        self.step = 0
        self.history: list[dict[str, float]] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.best_weights: dict[str, Any] | None = None
        #: What is validated and kept in the place of the weights of one step, if it is.
        self.average = AveragedWeights(self.weights, rows.steps) if options.keeps_averages else None

    def run(self) -> FitResult:
        """Train all epochs, or until patience is exceeded, and keep the weights of the best epoch.

        :raises Diverged: if loss, gradient or weights are not finite.
        :raises RuntimeError: if a parameter has no gradient.
        :raises OSError: if the checkpoint cannot be written.
        """
        from tqdm.auto import tqdm

        # A large block that is freed: glibc then keeps what a step frees for the next one, in place
        # of handing it back to the system page by page, which took a tenth of the time.
        torch.empty(1 << 24, dtype=torch.uint8)
        options, rows = self.options, self.rows
        self.workers.start(self.model, self.given, min(options.batch_size, rows.rows))
        if self.saved_state is not None:
            self._load(self.saved_state)
        else:
            self.saved.save(self._state)  # which shows that it can be written
            self._call_back()
        hidden = not options.progress or self.workers.rank > 0
        bar = tqdm(
            total=options.epochs, initial=self.epoch, desc="fit", unit="epoch", disable=hidden
        )
        with bar:
            while self.epoch < options.epochs and not self._has_stopped:
                loss = self._run_epoch(bar)
                bar.update()
                bar.set_postfix(loss=f"{loss:.4f}")
                self.saved.save(self._state)
        if self.held_out.rows:
            if self.best_weights is None:
                raise Diverged("the loss of the validation rows is inf in every epoch")
            self.model.load_state_dict(self.best_weights)
        elif self.average is not None:
            self.average.keep()
        self.saved.remove()
        return FitResult(self.history, self.best_epoch or self.epoch, self._has_stopped)

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

    @property
    def _has_stopped(self) -> bool:
        """Whether the best epoch is too long ago."""
        patience = self.options.patience
        return patience is not None and self.epoch - self.best_epoch >= patience

    def _call_back(self) -> None:
        """Call the user's function between two steps; it may raise, and so interrupt the run."""
        if self.options.callback is not None:
            self.options.callback(self.step)

    def _run_epoch(self, bar: Any) -> float:
        start, rate = time.perf_counter(), self.optimizer.param_groups[0]["lr"]
        n, before, kept = self.rows.rows, self.step, _copied(self.model)
        total: Tensor | float = 0.0
        try:
            for batch in self.rows.epoch(self.epoch):
                total = total + self._step(batch)
                if self.step % 100 == 0 and not bar.disable:
                    done = min(n, (self.step - before) * self.options.batch_size)
                    bar.set_postfix(loss=f"{float(total) / done:.4f}", rows=f"{done:,}/{n:,}")
                self._call_back()
            self._check_finite(float(total), 0.0, "after")
        except _NotFinite as found:
            self.model.load_state_dict(kept)
            raise Diverged(self._diverged(str(found), self.step - before)) from None
        row = {"epoch": self.epoch + 1, "step": self.step, "loss": float(total) / n}
        row["learning_rate"] = rate
        if self.held_out.rows:
            row["validation_loss"] = self._validate(self.epoch + 1)
        self.history.append({**row, "seconds": time.perf_counter() - start})
        return row["loss"]

    def _step(self, batch: list[Tensor]) -> Tensor:
        """Make one update; return the loss summed over the batch."""
        own = self.workers.part(batch)
        with self.randomness.in_use():
            for weight in self.weights:
                weight.grad = None
            loss = self._backward(own) if len(own[0]) else self.weights[0].new_zeros(())
            if self.step == 0:
                self._check_gradients()
            if self.workers.size > 1:
                self._add_up(loss, len(own[0]) / len(batch[0]))
            norm = clip_gradients(self.weights, self.options.clip_norm)
            if loss.device.type == "cpu" and not (math.isfinite(loss) and math.isfinite(norm)):
                self._check_finite(float(loss), float(norm), "before")
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.step += 1
            if self.average is not None:
                self.average.update(self.step)
            return loss

    def _backward(self, batch: list[Tensor]) -> Tensor:
        """Compute the gradient of the mean loss of a batch; return the sum over its rows."""
        loss, rows = self.loss(batch), len(batch[0])
        if loss.requires_grad:
            (loss / rows).backward()
        else:
            torch._foreach_div_([w.grad for w in self.weights if w.grad is not None], rows)
        return loss.detach()

    def _add_up(self, loss: Tensor, share: float) -> None:
        """Loss and gradient of the batch from those of the processes, which have shares of it."""
        for weight in self.weights:
            if weight.grad is None:  # another process may have one
                weight.grad = torch.zeros_like(weight)
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        torch._foreach_mul_(gradients, share)
        self.workers.add(*gradients, loss)

    def _check_gradients(self) -> None:
        there = torch.tensor(
            [float(w.grad is not None) for w in self.weights], device=self.options.target
        )
        self.workers.add(there)
        if missing := [name for name, n in zip(self.parameters, there, strict=True) if not n]:
            raise RuntimeError(
                f"no gradient reached {missing} in the first step, although the objective should "
                "train them. Set requires_grad=False for parameters that are not used."
            )

    def _check_finite(self, loss: float, norm: float, when: str) -> None:
        """Raise _NotFinite if a weight, a loss or the norm of a gradient is not finite."""
        for name, weight in self.parameters.items():
            if not weight.isfinite().all():
                raise _NotFinite(f"a weight of {name} is not finite {when} the step")
        if found := not_finite(loss, norm):
            raise _NotFinite(found)

    def _diverged(self, found: str, batch: int) -> str:
        """The message about a step that is not finite, number `batch` of its epoch."""
        batch = min(batch, self.rows.steps - 1)
        place = f"batch {batch + 1} of {self.rows.steps} in epoch {self.epoch + 1}"
        if self.options.target.type != "cpu":  # where numbers are read at the end of an epoch
            place = f"epoch {self.epoch + 1}"
        elif self.numbers_rows:
            rows = self.rows.origin(batch)
            shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            place += f" (rows {shown})"
        kept = f"of epoch {self.epoch}" if self.epoch else "that it had before"
        advice = "lower learning_rate or clip_norm"
        return f"{found} in {place}. The model has the weights {kept}: {advice}"

    @torch.no_grad()
    def _validate(self, epoch: int) -> float:
        """Mean loss over the validation rows, with the same draws every epoch; the best is kept."""
        options, workers = self.options, self.workers
        total = torch.zeros((), dtype=torch.float64, device=options.target)
        drawn = Randomness(workers.seed(options.seed), options.target)
        with nullcontext() if self.average is None else self.average.in_place():
            with drawn.in_use(), evaluating(self.model):
                for batch in self.held_out.epoch(epoch):
                    own = workers.part(batch)
                    if len(own[0]):
                        total += self.score(own)
            workers.add(total)
            loss = float(total) / self.held_out.rows
            if math.isnan(loss):
                raise Diverged(f"the loss of the validation rows is nan in epoch {epoch}")
            if loss < self.best_loss:
                self.best_loss, self.best_epoch = loss, epoch
                self.best_weights = _copied(self.model)
        return loss

    def _state(self) -> dict[str, Any]:
        """The state on which the next epoch depends."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler and self.scheduler.state_dict(),
            "history": self.history,
            "best": (self.best_loss, self.best_epoch, self.best_weights),
            "average": self.average and self.average.mean,
            "order": self.rows.state(),
            "rng": (self.randomness.cpu, self.randomness.cuda),
        }

    def _load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.history = state["history"]
        self.step = self.epoch * self.rows.steps
        self.best_loss, self.best_epoch, self.best_weights = state["best"]
        if self.average is not None:
            for mean, value in zip(self.average.mean, state["average"], strict=True):
                mean.copy_(value)
        self.rows.load(state["order"])
        if self.workers.rank:
            seed = self.workers.seed(self.options.seed, self.epoch)
            self.randomness = Randomness(seed, self.options.target)
        else:
            self.randomness.cpu, self.randomness.cuda = state["rng"]


class _NotFinite(ArithmeticError):
    """A number of a step is infinite or NaN."""


def _copied(model: HasTensors) -> dict[str, Any]:
    """A copy of the state of a model."""
    state = model.state_dict()
    return {k: v.clone() if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in state.items()}
