"""Updates of the weights: optimisers, learning rates, and averages.

Some methods of torch's optimisers are decorated so that their first call imports `torch._dynamo`,
compiled or not, which takes a second. Here the same methods are called without their decorators.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

#: Steps in which the rate of "flat" rises to its value.
WARM_UP = 50
#: Share of the steps, the last ones, in which the rate of "flat" falls to 0.
FALL = 0.4
#: Steps over which weights are averaged, at least.
_FEWEST = 5


class _Fused(Optimizer):
    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 0.001,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        options: Any = {"lr": lr, "weight_decay": weight_decay, "betas": betas, "fused": True}
        super().__init__(params, **options)

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)


class Adam(_Fused, torch.optim.Adam):
    """`torch.optim.Adam(fused=True)`, with weight decay as part of the gradient."""

    step: Any = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class AdamW(_Fused, torch.optim.AdamW):
    """`torch.optim.AdamW(fused=True)`, with decoupled weight decay."""

    step: Any = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def flat(optimizer: Optimizer, steps: int) -> Any:
    """Constant after a short warm-up, and down to 0 over the last 40 % of the steps."""
    warm_up = min(WARM_UP, max(1, steps // 10))

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / warm_up, max(0.0, (1.0 - step / steps) / FALL))

    return LambdaLR(optimizer, factor)


def constant(optimizer: Optimizer, steps: int) -> Any:
    """Constant after 50 steps of warm-up."""
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))


def down(optimizer: Optimizer, steps: int) -> Any:
    """Along a straight line from the rate of the first step to 0."""
    return LambdaLR(optimizer, lambda step: max(0.0, 1.0 - step / steps))


#: What `schedule=` of `fit` names; "cosine" goes down to 0 along half a period.
SCHEDULES: dict[str, Any] = {"constant": constant, "cosine": CosineAnnealingLR, "flat": flat}


class AveragedWeights:
    """A running mean of the weights with the memory of one epoch (Polyak & Juditsky 1992).

    At a learning rate at which training still makes progress, the weights of single steps move
    about. A validation loss hardly tells them apart, but the mean of the predictions moves with
    them, by several standard errors of the rate of y. Their average stays.

    :param parameters: the weights, which change in place.
    :param steps: of an epoch.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], steps: int) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.steps = max(steps, _FEWEST)
        self.mean = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, which are counted from 1."""
        torch._foreach_lerp_(self.mean, self.parameters, 1.0 / min(step, self.steps))

    def keep(self) -> None:
        """Make the parameters the averages."""
        self._set(self.mean)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the parameters are the averages."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.keep()
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, values: list[Tensor]) -> None:
        torch._foreach_copy_(self.parameters, values)
