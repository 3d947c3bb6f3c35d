"""The loop of every training: batches, steps, validation, the best weights, a checkpoint."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm._utils.files import digest, undamaged, write_file
from pyro_gcm._utils.torch_state import Randomness, evaluating
from pyro_gcm._utils.validation import warn_user
from pyro_gcm.training.batches import Batches, Workers
from pyro_gcm.training.options import AveragedWeights, TrainingOptions, clip_gradients
from pyro_gcm.training.result import Diverged, FitResult

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
    :raises ValueError: for a checkpoint of another training.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, nn.Parameter],
        loss: OfBatch,
        score: OfBatch,
        rows: Batches,
        held_out: Batches,
        options: TrainingOptions,
        given: dict[str, Any],
    ) -> None:
        if options.patience is not None and not held_out.rows:
            raise ValueError("patience needs a validation part: pass validation=0.1, say")
        self.model, self.parameters, self.loss, self.score = model, parameters, loss, score
        self.rows, self.held_out, self.options = rows, held_out, options
        self.workers = Workers()
        self.weights = list(parameters.values())
        #: Of what torch's generators draw.
        self.randomness = Randomness(self.workers.seed(options.seed), options.target)
        self.optimizer = options.make_optimizer(self.weights)
        self.scheduler = options.make_scheduler(self.optimizer, options.epochs * rows.steps)
        sizes = {"model": type(model).__name__, "rows": rows.rows, "held out": held_out.rows}
        sizes["parameters"] = sum(weight.numel() for weight in self.weights)
        self.given = {**sizes, **given, **options.given}
        self.path: Path | None = None
        if options.checkpoint is not None and not self.workers.rank:
            self.path = Path(options.checkpoint)
        found = read_checkpoint(self.path, self.given) if self.path is not None else None
        self.saved_state = self.workers.from_first(found)
        self.history: list[dict[str, float]] = []
        self.step = 0
        self.best: tuple[float, int, dict[str, Any]] = math.inf, 0, {}  # loss, epoch and weights
        #: What is validated and kept in the place of the weights of one step, if it is.
        self.average = AveragedWeights(self.weights, rows.steps) if options.keeps_averages else None

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

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
        options, workers, callback = self.options, self.workers, self.options.callback
        workers.start(self.model, self.given, min(options.batch_size, self.rows.rows))
        if self.saved_state is not None:
            self._load(self.saved_state)
        else:
            self._save()  # which shows that it can be written
            if callback is not None:
                callback(self.step)
        hidden = not options.progress or workers.rank > 0
        shown = {"total": options.epochs, "initial": self.epoch, "unit": "epoch", "disable": hidden}
        with tqdm(desc="fit", **shown) as bar:
            try:
                while self.epoch < options.epochs and not self._has_stopped():
                    loss = self._run_epoch(bar)
                    bar.update()
                    bar.set_postfix(loss=f"{loss:.4f}")
                    self._save()
                if self._has_stopped():
                    bar.set_postfix_str(
                        f"loss={loss:.4f}, stopped early, best epoch {self.best[1]}"
                    )
            except KeyboardInterrupt as error:
                if self.path is None:
                    raise
                then = f"the same call goes on from {self.path}"
                raise KeyboardInterrupt(f"after {self.epoch} epochs; {then}") from error
        if self.held_out.rows:
            if not self.best[2]:
                raise Diverged("the loss of the validation rows is inf in every epoch")
            self.model.load_state_dict(self.best[2])
        elif self.average is not None:
            self.average.keep()
        if self.path is not None:
            self.path.unlink()
        return FitResult(self.history, self.best[1] or self.epoch, self._has_stopped())

    def _has_stopped(self) -> bool:
        """Whether the best epoch is too long ago."""
        patience = self.options.patience
        return patience is not None and self.epoch - self.best[1] >= patience

    def _run_epoch(self, bar: Any) -> float:
        start, rate = time.perf_counter(), self.optimizer.param_groups[0]["lr"]
        options, rows = self.options, self.rows.rows
        total: Tensor | float = 0.0
        self.kept = copy.deepcopy(self.model.state_dict())
        for batch in self.rows.epoch(self.epoch):
            total = total + self._step(batch)
            if self.step % 100 == 0 and not bar.disable:
                done = min(rows, (self.step - self.epoch * self.rows.steps) * options.batch_size)
                bar.set_postfix(loss=f"{float(total) / done:.4f}", rows=f"{done:,}/{rows:,}")
            if options.callback is not None:
                options.callback(self.step)  # which may raise, and so interrupt the run
        self._check_finite(float(total), 0.0, "after")
        loss = float(total) / rows
        row = {"epoch": self.epoch + 1, "step": self.step, "loss": loss, "learning_rate": rate}
        if self.held_out.rows:
            row["validation_loss"] = self._validate(self.epoch + 1)
        self.history.append({**row, "seconds": time.perf_counter() - start})
        return loss

    def _step(self, batch: list[Tensor]) -> Tensor:
        """Make one update; return the loss summed over the batch."""
        own, loss = self.workers.part(batch), self.weights[0].new_zeros(())
        with self.randomness.in_use():
            for weight in self.weights:
                weight.grad = None
            if rows := len(own[0]):
                loss = self.loss(own)
                if loss.requires_grad:
                    (loss / rows).backward()
                elif gradients := [w.grad for w in self.weights if w.grad is not None]:
                    torch._foreach_div_(gradients, rows)
                loss = loss.detach()
            if self.step == 0 and (
                missing := [name for name, w in self.parameters.items() if w.grad is None]
            ):
                message = (
                    f"no gradient reached {missing} in the first step, although the objective "
                    "should train them. Set requires_grad=False for parameters that are not used."
                )
                if not getattr(self.model, "tells_own_story", False):
                    raise RuntimeError(message)
                warn_user(message)
            self.workers.add_gradients(self.weights, loss, rows / len(batch[0]))
            norm = clip_gradients(self.weights, self.options.clip_norm or math.inf)
            if loss.device.type == "cpu" and not (math.isfinite(loss) and math.isfinite(norm)):
                self._check_finite(float(loss), float(norm), "before")
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.step += 1
            if self.average is not None:
                self.average.update(self.step)
            return loss

    def _check_finite(self, loss: float, norm: float, when: str) -> None:
        """Put the weights before the epoch back if a number is not finite.

        :raises Diverged: saying which, and in which batch.
        """
        wrong = [name for name, w in self.parameters.items() if not w.isfinite().all()]
        found = [f"a weight of {name} is not finite {when} the step" for name in wrong]
        numbers = ("the loss", loss), ("the norm of the gradient", norm)
        found += [f"{name} is {value}" for name, value in numbers if not math.isfinite(value)]
        if not found:
            return
        place = f"epoch {self.epoch + 1}"
        if self.options.target.type == "cpu":  # elsewhere numbers are read at the end of an epoch
            batch = min(self.step - self.epoch * self.rows.steps, self.rows.steps - 1)
            place = f"batch {batch + 1} of {self.rows.steps} in {place}"
        self.model.load_state_dict(self.kept)
        kept = f"of epoch {self.epoch}" if self.epoch else "that it had before"
        raise Diverged(
            f"{found[0]} in {place}. The model has the weights {kept}: lower learning_rate or "
            "clip_norm"
        )

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
            if loss < self.best[0]:
                self.best = loss, epoch, copy.deepcopy(self.model.state_dict())
        return loss

    def _save(self) -> None:
        """Write the state on which the next epoch depends, if it is to be written."""
        if self.path is None:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler and self.scheduler.state_dict(),
            "history": self.history,
            "best": self.best,
            "average": self.average and self.average.mean,
            "order": self.rows.order and self.rows.order.get_state(),
            "rng": (self.randomness.cpu, self.randomness.cuda),
        }
        write_checkpoint(self.path, self.given, state)

    def _load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.history, self.best = state["history"], state["best"]
        self.step = self.epoch * self.rows.steps
        if self.average is not None:
            for mean, value in zip(self.average.mean, state["average"], strict=True):
                mean.copy_(value)  # of another device
        if self.rows.order is not None:
            self.rows.order.set_state(state["order"])
        self.randomness.cpu, self.randomness.cuda = state["rng"]
        if self.workers.rank:
            seed = self.workers.seed(self.options.seed, self.epoch)
            self.randomness = Randomness(seed, self.options.target)


def write_checkpoint(path: Path, given: dict[str, Any], state: dict[str, Any]) -> None:
    """Write the state of a training and the options that it was given, in plain data.

    The file has a line with the SHA-256 of the rest, which is one of `torch.save` and read with
    `weights_only`: nothing in it is executed. Values of the rows, and functions of the user, are
    the user's to keep as they were. An interruption leaves either the old or the new file intact.

    :raises OSError: if it cannot be written.
    """
    content = BytesIO()
    torch.save({"given": given, "state": state}, content)
    raw = content.getvalue()
    write_file(path, digest(raw).encode() + b"\n" + raw)


def read_checkpoint(path: Path, given: dict[str, Any]) -> dict[str, Any] | None:
    """The saved state, on the CPU, or None if there is no file.

    :raises DamagedFile: if the file is not as it was written, or no checkpoint.
    :raises ValueError: if it is of a training with other options, which the message names.
    """
    if not path.exists():
        return None
    advice = "To train from the start, delete it or name another file"
    with undamaged(f"checkpoint {path}", advice=f". {advice}"):
        seal, _, raw = path.read_bytes().partition(b"\n")
        if seal != digest(raw).encode():
            raise ValueError("was changed, or is no such file: it does not begin with its SHA-256")
        found = torch.load(BytesIO(raw), map_location="cpu", weights_only=True)
        theirs, state = dict(found["given"]), dict(found["state"])
    other = [
        f"{name} is {theirs.get(name)} there, {given.get(name)} here"
        for name in {**given, **theirs}
        if theirs.get(name) != given.get(name)
    ]
    if other:
        several = ", ".join(other[:5])
        raise ValueError(f"checkpoint {path} is of another training: {several}. {advice}")
    return state
