"""Adam and AdamW of torch, fused, without the second that torch's compiler takes to be imported.

Some methods of torch's optimisers are decorated so that their first call imports `torch._dynamo`,
compiled or not. Here the same methods are called without their decorators.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


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
