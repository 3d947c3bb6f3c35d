"""Options of a training, which are checked before it starts, and the updates that they name.

Some methods of torch's optimisers are decorated so that their first call imports `torch._dynamo`,
compiled or not, which takes a second. Here the same methods are called without their decorators.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from pyro_gcm._utils.files import usable
from pyro_gcm._utils.validation import one_of, positive, positive_int, seed_of, shown

ScheduleName = Literal["default", "constant", "cosine", "flat"]
Schedule = Callable[[Optimizer, int], Any] | ScheduleName | None
#: Options that do not change the numbers of a training.
_ASIDE = {"device", "progress", "checkpoint", "callback"}


@torch.no_grad()
def _step(optimizer: Any) -> None:
    """Change the parameters that have a gradient."""
    for group in optimizer.param_groups:
        of_type: dict[torch.dtype, list[tuple[Tensor, ...]]] = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            if not (state := optimizer.state[p]):
                state |= {"step": torch.zeros((), device=p.device)}
                state |= {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            moments = state["exp_avg"], state["exp_avg_sq"], state["step"]
            of_type.setdefault(p.dtype, []).append((p, p.grad, *moments))
        how = {name: group[name] for name in ("lr", "eps", "weight_decay")}
        how["beta1"], how["beta2"] = group["betas"]
        for same in of_type.values():
            *values, steps = map(list, zip(*same, strict=True))
            torch._foreach_add_(steps, 1.0)
            optimizer.update(*values, [], steps, amsgrad=False, maximize=False, **how)


class _Fused(Optimizer):
    """torch's fused update, without what `torch.optim` asks of each parameter in every step.

    :param options: betas, eps and weight_decay.
    """

    def __init__(self, params: Any, lr: float = 0.001, **options: Any) -> None:
        if others := options.keys() - {"betas", "eps", "weight_decay"}:
            raise TypeError(f"{type(self).__name__} has no {min(others)}: use torch.optim")
        chosen: Any = {"lr": lr, "fused": True, **options}
        super().__init__(params, **chosen)

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    step: Any = _step
    step.hooked = True  # so that torch wraps no profiler around it


class Adam(_Fused, torch.optim.Adam):
    """`torch.optim.Adam(fused=True)`, with weight decay as part of the gradient."""

    update = staticmethod(torch._fused_adam_)


class AdamW(_Fused, torch.optim.AdamW):
    """`torch.optim.AdamW(fused=True)`, with decoupled weight decay."""

    update = staticmethod(torch._fused_adamw_)


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], bound: float) -> Tensor:
    """The norm of all gradients together, which are scaled down to a bound above which it is.

    As `torch.nn.utils.clip_grad_norm_`, in a third of its time for parameters of one device.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack(torch._foreach_norm(gradients)).norm()
    torch._foreach_mul_(gradients, (bound / (norm + 1e-6)).clamp_(max=1.0))
    return norm


def flat(optimizer: Optimizer, steps: int) -> Any:
    """Constant after a short warm-up, and down to 0 over the last 40 % of the steps."""
    warm_up = min(50, max(1, steps // 10))

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / warm_up, max(0.0, (1.0 - step / steps) / 0.4))

    return LambdaLR(optimizer, factor)


def constant(optimizer: Optimizer, steps: int) -> Any:
    """Constant after 50 steps of warm-up."""
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))


def down(optimizer: Optimizer, steps: int) -> Any:
    """Along a straight line from the rate of the first step to 0."""
    return LambdaLR(optimizer, lambda step: max(0.0, 1.0 - step / steps))


#: What `schedule=` of `fit` names; "cosine" goes down to 0 along half a period.
SCHEDULES: dict[str, Any] = {"constant": constant, "cosine": CosineAnnealingLR, "flat": flat}


@dataclass
class TrainingDefaults:
    """Defaults of `pyro_gcm.fit`; a model may have its own."""

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 0.01
    optimizer: Callable[..., Optimizer] | None = None
    schedule: Schedule = "cosine"
    clip_norm: float | None = 10.0


@dataclass
class TrainingOptions(TrainingDefaults):
    """The options that `pyro_gcm.fit` documents and `baselines.fit` shares.

    :raises ValueError: for an invalid option; the message names it.
    """

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
        if not isinstance(self.validation, int | float) or not 0.0 <= self.validation < 1.0:
            raise ValueError(f"validation must be a share in [0, 1), got {shown(self.validation)}")
        positive("learning_rate", self.learning_rate)
        if self.clip_norm is not None:
            positive("clip_norm", self.clip_norm)
        self.seed = seed_of(self.seed)
        if self.checkpoint is not None and usable(self.checkpoint).is_dir():
            raise ValueError(f"checkpoint must be a file, and {self.checkpoint} is a folder")
        if self.patience is not None:
            positive_int("patience", self.patience)
        if self.schedule is not None and not callable(self.schedule):
            one_of("schedule", self.schedule, list(SCHEDULES))
        if self.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.target = torch.device(self.device)

    @property
    def given(self) -> dict[str, Any]:
        """The options that change the numbers of a training, in plain data."""
        named = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name not in _ASIDE)
        return {name: "a function" if callable(value) else value for name, value in named}

    @property
    def keeps_averages(self) -> bool:
        """Whether the weights that are validated and kept are averages over the last epoch."""
        return self.patience is not None or self.schedule == "constant"

    def parts(
        self, rows: int, order: torch.Generator, labels: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Row indices of the training part and of the validation part.

        :param rows: number of rows.
        :param order: generator of the permutation that is split.
        :param labels: of the rows, [n], of which those with the same one are in one part.
        :raises ValueError: if one of the parts would be empty although `validation` is positive.
        """
        held_out = round(self.validation * rows)
        if self.validation > 0.0 and not 0 < held_out < rows:
            raise ValueError(f"validation={self.validation} leaves no rows in one of the parts")
        index = torch.randperm(rows, generator=order)
        if labels is not None and held_out:
            sizes = labels.bincount()
            shuffled = torch.randperm(len(sizes), generator=order)
            count = max(1, int((sizes[shuffled].cumsum(0) <= held_out).sum()))
            is_out = torch.isin(labels[index], shuffled[:count])
            index, held_out = torch.cat([index[is_out], index[~is_out]]), int(is_out.sum())
        return index[held_out:], index[:held_out]

    def make_optimizer(self, parameters: list[torch.nn.Parameter]) -> Optimizer:
        """The optimiser at the initial learning rate; Adam by default."""
        return (self.optimizer or Adam)(parameters, lr=self.learning_rate)

    def make_scheduler(self, optimizer: Optimizer, steps: int) -> Any:
        """The learning rate scheduler, which is stepped after every update, or None."""
        if self.schedule is None:
            return None
        make = SCHEDULES[self.schedule] if isinstance(self.schedule, str) else self.schedule
        return make(optimizer, steps)


class AveragedWeights:
    """A running mean of the weights over the last epoch, 5 steps at least (Polyak & Juditsky 1992).

    At a learning rate at which training still makes progress, the weights of single steps move
    about. A validation loss hardly tells them apart, but the mean of the predictions moves with
    them, by several standard errors of the rate of y. Their average stays.

    :param parameters: the weights, which change in place.
    :param steps: of an epoch.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], steps: int) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.steps = max(steps, 5)
        self.mean = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, which are counted from 1."""
        torch._foreach_lerp_(self.mean, self.parameters, 1.0 / min(step, self.steps))

    @torch.no_grad()
    def keep(self) -> None:
        """Make the parameters the averages."""
        torch._foreach_copy_(self.parameters, self.mean)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the parameters are the averages."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.keep()
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, own)
