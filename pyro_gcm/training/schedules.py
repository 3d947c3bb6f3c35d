"""Learning rates over a training run."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

#: Steps in which the rate of "flat" rises to its value.
WARM_UP = 50
#: Share of the steps, the last ones, in which the rate of "flat" falls to 0.
FALL = 0.4


def cosine(optimizer: Optimizer, steps: int) -> Any:
    """Down to 0 along half a period of the cosine."""
    return CosineAnnealingLR(optimizer, steps)


def flat(optimizer: Optimizer, steps: int) -> Any:
    """Constant after a short warm-up, and down to 0 over the last 40 % of the steps."""
    warm_up = min(WARM_UP, max(1, steps // 10))

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / warm_up, max(0.0, (1.0 - step / steps) / FALL))

    return LambdaLR(optimizer, factor)


def constant(optimizer: Optimizer, steps: int) -> Any:
    """Constant after 50 steps of warm-up."""
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))


#: What `schedule=` of `fit` names.
SCHEDULES = {"constant": constant, "cosine": cosine, "flat": flat}


def scale_rates(optimizer: Optimizer, scheduler: Any, factor: float) -> None:
    """Multiply the learning rates of a run that goes on, and those that it starts from."""
    for group in optimizer.param_groups:
        for name in ("lr", "initial_lr", "max_lr", "min_lr"):
            if name in group:
                group[name] = factor * group[name]
    for part in (scheduler, *getattr(scheduler, "_schedulers", [])):
        for name in ("base_lrs", "_last_lr"):
            if hasattr(part, name):
                setattr(part, name, [factor * rate for rate in getattr(part, name)])
