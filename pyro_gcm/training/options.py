"""Options of a training run, which are checked before training starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from pyro_gcm._utils.options import flag, seed_of
from pyro_gcm._utils.validation import one_of, positive, positive_int, shown
from pyro_gcm._utils.writing import usable
from pyro_gcm.training.cross_fit import CrossFit
from pyro_gcm.training.updates import SCHEDULES, Adam


@dataclass(frozen=True)
class FitSettings:
    """Options of `pyro_gcm.fit` that few runs change: of its steps, its draws and the machine.

    >>> import torch
    >>> from pyro_gcm import GCM, FitSettings, fit
    >>> x, r, y = torch.randn(60, 3), torch.rand(60, 2), torch.arange(60) % 2
    >>> settings = FitSettings(schedule="flat", particles="qmc")
    >>> result = fit(GCM(3, 2), x, r, y, epochs=2, settings=settings, progress=False)

    :param optimizer: function (parameters, lr=...) -> optimiser; torch's Adam by default, or what
        the model asks for.
    :param schedule: "cosine" (down to 0), "flat" (constant, then down to 0 over the last 40 % of
        the steps) and "constant", both after a warm-up of at most 50 steps, None, or a function
        (optimiser, total steps) -> a scheduler that is stepped after every batch. "cosine" by
        default, or what the model asks for.
    :param clip_norm: bound on the norm of the gradient, or None; 10 by default, or what the model
        asks for.
    :param patience: epochs without improvement after which training stops; needs `validation`.
        The weights that are validated and kept are then averages over the steps of the last epoch,
        since those of a single step predict too much or too little on the whole while the learning
        rate is high.
    :param left_out: by how many of the members each row is left out (cross-fitting), which are then
        what the row is predicted by for early stopping. At a constant learning rate, averaged
        weights of the best epoch are kept, with a `patience` of 8 epochs, or fewer for more than
        1,000 rows; a few epochs follow in which all members see all rows. 0 for none; by default
        what the model asks for, as members do for 20 to 20,000 rows in memory, where neither
        `epochs`, a schedule nor rows for validation are given.
    :param groups: a label for each row, [n], of which rows with the same one are left out together.
    :param particles: "random", independent draws; or "qmc", points of a randomised Sobol sequence,
        of which fewer do (`inference.scored.QuasiRandomNoise`).
    :param temperature: factor on the log-densities of the latent sites (`inference.temper`); below
        1 the prior weighs less, as in a beta-VAE.
    :param memory: bytes that rows of `data` may take: half of it the window in which they are
        shuffled, a quarter the rows held out for validation, and a quarter a sample for quantiles.
    :param threads: of torch in the training, whose numbers differ by rounding. More than one helps
        on idle cores alone: on two, two took .9 of the time for members of width 16 in batches of
        256 and .57 for a GCM of width 256 in batches of 1,024, at 1.2 to 1.55 times the CPU time;
        and members on Adult 83.5 s in place of 4.7 beside other programs. A
        checkpoint may go on with another number.
    :param distributed: whether the processes of a run share every batch: None, those of torch's
        process group if it is initialised; True, also initialise it from the environment that
        `torchrun` sets; False, train in this process alone. Every process is given the same rows,
        model and options, computes its part of every batch with random numbers of its own, and
        makes the step of the summed gradients, as with torch's `DistributedDataParallel`: all end
        with the same weights, which are as good as those of one process, but not the same. Process
        0 shows progress and writes. One thread at a time can do so.
    """

    optimizer: Callable[..., Optimizer] | None = None
    schedule: Callable[[Optimizer, int], Any] | str | None = "default"
    clip_norm: float | str | None = "default"
    patience: int | None = None
    left_out: int | None = None
    groups: Any = None
    particles: str = "random"
    temperature: float = 1.0
    memory: int = 1 << 28
    threads: int = 1
    distributed: bool | None = None


def gathered(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `pyro_gcm.fit`, those that `FitSettings` has in one of it, as `settings`."""
    own = {field.name for field in fields(FitSettings)} & options.keys()
    settings = replace(options.get("settings", FitSettings()), **{n: options[n] for n in own})
    return {**{n: v for n, v in options.items() if n not in own}, "settings": settings}


class TrainingDefaults(NamedTuple):
    """Defaults of `pyro_gcm.fit`; a model may have its own.

    :param left_out: as `FitSettings` has it.
    """

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 0.01
    optimizer: Callable[..., Optimizer] | None = None
    schedule: str | None = "cosine"
    clip_norm: float | None = 10.0
    left_out: int = 0


@dataclass
class TrainingOptions:
    """The options that `pyro_gcm.fit` and `FitSettings` document and `baselines.fit` shares.

    :param averages: whether to keep averages of the weights also without patience.
    :param cross_fit: which members leave out which rows; then all rows are in both parts.
    :param held_out: rows at the end of the data that are the validation part, in place of a share.
    :raises TypeError: if `optimizer` is not callable.
    :raises ValueError: for an invalid option; the message names it.
    """

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 0.01
    optimizer: Callable[..., Optimizer] | None = None
    schedule: Callable[[Optimizer, int], Any] | str | None = "cosine"
    clip_norm: float | None = 10.0
    validation: float = 0.0
    patience: int | None = None
    seed: int = 0
    device: str | torch.device = "auto"
    progress: bool = True
    checkpoint: str | Path | None = None
    callback: Callable[[int], None] | None = None
    held_out: int = 0
    threads: int = 1
    averages: bool = False
    cross_fit: CrossFit | None = None

    def __post_init__(self) -> None:
        """Check every option."""
        self.epochs = positive_int("epochs", self.epochs)
        self.batch_size = positive_int("batch_size", self.batch_size)
        self.threads = positive_int("threads", self.threads)
        share = isinstance(self.validation, int | float) and not isinstance(self.validation, bool)
        if not share or not 0.0 <= self.validation < 1.0:
            raise ValueError(f"validation must be a share in [0, 1), got {shown(self.validation)}")
        positive("learning_rate", self.learning_rate)
        if self.clip_norm is not None:
            positive("clip_norm", self.clip_norm)
        self.seed = seed_of(self.seed)
        self.progress = flag("progress", self.progress)
        if self.checkpoint is not None and usable(self.checkpoint).is_dir():
            raise ValueError(f"checkpoint must be a file, and {self.checkpoint} is a folder")
        if self.patience is not None:
            positive_int("patience", self.patience)
            if self.validation == 0.0 and not self.held_out and self.cross_fit is None:
                raise ValueError("patience needs a validation part: pass validation=0.1, say")
        if self.schedule is not None and not callable(self.schedule):
            one_of("schedule", self.schedule, list(SCHEDULES))
        self.target = _device(self.device)

    @property
    def keeps_averages(self) -> bool:
        """Whether the weights that are kept are averages."""
        return self.averages or self.patience is not None

    def parts(self, rows: int, order: torch.Generator) -> tuple[Tensor, Tensor]:
        """Row indices of the training part and of the validation part.

        :param rows: number of rows.
        :param order: generator of the permutation that is split.
        :raises ValueError: if one of the parts would be empty although `validation` is positive.
        """
        if self.cross_fit is not None:
            return torch.arange(rows), torch.arange(rows)
        if self.held_out:
            kept = rows - self.held_out
            return torch.randperm(kept, generator=order), torch.arange(kept, rows)
        held_out = round(self.validation * rows)
        if self.validation > 0.0 and not 0 < held_out < rows:
            raise ValueError(f"validation={self.validation} leaves no rows in one of the parts")
        index = torch.randperm(rows, generator=order)
        return index[held_out:], index[:held_out]

    def make_optimizer(self, parameters: list[torch.nn.Parameter]) -> Optimizer:
        """The optimiser at the initial learning rate; Adam by default."""
        make = partial(self.optimizer or Adam, parameters, lr=self.learning_rate)
        made = _called(make, "optimizer", "(parameters, lr=...)")
        if not isinstance(made, Optimizer):
            raise TypeError(f"optimizer must return a torch optimiser, got {made!r}")
        return made

    def make_scheduler(self, optimizer: Optimizer, steps: int) -> Any:
        """The learning rate scheduler, which is stepped after every update, or None."""
        if self.schedule is None:
            return None
        make = SCHEDULES[self.schedule] if isinstance(self.schedule, str) else self.schedule
        return _called(partial(make, optimizer, steps), "schedule", "(optimizer, steps)")


def _called(make: Callable[[], Any], name: str, arguments: str) -> Any:
    """The result of a user's function; the error for other arguments names the function."""
    try:
        return make()
    except TypeError as error:
        raise TypeError(f"{name} must be a function {arguments}; called so: {error}") from error


def _device(device: str | torch.device) -> torch.device:
    if not isinstance(device, str | torch.device | int):
        raise ValueError(f"device must be a device of torch, got {shown(device)}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"device={device!r} is not a device of torch: {error}") from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={str(device)!r} is not available: torch finds no CUDA device")
    return resolved
