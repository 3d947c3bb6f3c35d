"""Options of a training, which are checked before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from pyro_gcm._utils.files import usable
from pyro_gcm._utils.validation import flag, one_of, positive, positive_int, seed_of, shown
from pyro_gcm.training.updates import SCHEDULES, Adam

Schedule = Callable[[Optimizer, int], Any] | str | None
#: Options that do not change the numbers of a training.
_ASIDE = {"device", "progress", "checkpoint", "callback"}


class TrainingDefaults(NamedTuple):
    """Defaults of `pyro_gcm.fit`; a model may have its own."""

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 0.01
    optimizer: Callable[..., Optimizer] | None = None
    schedule: Schedule = "cosine"
    clip_norm: float | None = 10.0


@dataclass
class TrainingOptions:
    """The options that `pyro_gcm.fit` documents and `baselines.fit` shares.

    :raises TypeError: if a function is not callable.
    :raises ValueError: for an invalid option; the message names it.
    """

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 0.01
    optimizer: Callable[..., Optimizer] | None = None
    schedule: Schedule = "cosine"
    clip_norm: float | None = 10.0
    validation: float = 0.0
    patience: int | None = None
    seed: int = 0
    device: str | torch.device = "auto"
    progress: bool = True
    checkpoint: str | Path | None = None
    callback: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        """Check every option."""
        self.epochs = positive_int("epochs", self.epochs)
        self.batch_size = positive_int("batch_size", self.batch_size)
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
        if self.schedule is not None and not callable(self.schedule):
            one_of("schedule", self.schedule, list(SCHEDULES))
        self.target = _device(self.device)

    @property
    def given(self) -> dict[str, Any]:
        """The options that change the numbers of a training, in plain data."""
        named = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name not in _ASIDE)
        return {name: "a function" if callable(value) else value for name, value in named}

    @property
    def keeps_averages(self) -> bool:
        """Whether the weights that are validated and kept are averages over the last epoch."""
        return self.patience is not None or self.schedule == "constant"

    def parts(self, rows: int, order: torch.Generator) -> tuple[Tensor, Tensor]:
        """Row indices of the training part and of the validation part.

        :param rows: number of rows.
        :param order: generator of the permutation that is split.
        :raises ValueError: if one of the parts would be empty although `validation` is positive.
        """
        held_out = round(self.validation * rows)
        if self.validation > 0.0 and not 0 < held_out < rows:
            raise ValueError(f"validation={self.validation} leaves no rows in one of the parts")
        index = torch.randperm(rows, generator=order)
        return index[held_out:], index[:held_out]

    def make_optimizer(self, parameters: list[torch.nn.Parameter]) -> Optimizer:
        """The optimiser at the initial learning rate; Adam by default."""
        make, wanted = self.optimizer or Adam, "(parameters, lr=...)"
        made = _called(make, "optimizer", wanted, parameters, lr=self.learning_rate)
        if not isinstance(made, Optimizer):
            raise TypeError(f"optimizer must return a torch optimiser, got {made!r}")
        return made

    def make_scheduler(self, optimizer: Optimizer, steps: int) -> Any:
        """The learning rate scheduler, which is stepped after every update, or None."""
        if self.schedule is None:
            return None
        make = SCHEDULES[self.schedule] if isinstance(self.schedule, str) else self.schedule
        return _called(make, "schedule", "(optimizer, steps)", optimizer, steps)


def _called(make: Callable[..., Any], name: str, wanted: str, *args: Any, **options: Any) -> Any:
    """The result of a function of the user; an error in calling it names it."""
    try:
        return make(*args, **options)
    except TypeError as error:
        raise TypeError(f"{name} must be a function {wanted}; called so: {error}") from error


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"device={device!r} is not a device of torch: {error}") from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={str(device)!r} is not available: torch finds no CUDA device")
    return resolved
