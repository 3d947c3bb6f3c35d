"""Adam and AdamW of torch with less Python in a step: the same kernel, state and numbers."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

#: torch's method without its decorator, which imports torch's compiler (1 s).
_add_param_group = inspect.unwrap(Optimizer.add_param_group)


class _Fused(Optimizer):
    """A step that calls the fused kernel on lists of tensors that are collected once.

    Hooks of a step are not called.
    """

    kernel: Callable[..., None]

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.001, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, fused=True)  # type: ignore[call-arg]

    @staticmethod
    def profile_hook_step(func: Any) -> Any:
        """The step as it is, not wrapped in a profiler's record."""
        return func

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch."""
        _add_param_group(self, param_group)
        self._lists: list[_Lists] = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lists = []

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Make one update; torch's own where it has a closure or parameters without a gradient."""
        parameters = (p for group in self.param_groups for p in group["params"])
        if closure is not None or any(p.grad is None for p in parameters):
            return super().step(closure)
        self._lists = self._lists or [
            lists for group in self.param_groups for lists in self._collected(group)
        ]
        for group, alike, averages, squares, steps in self._lists:
            steps.add_(1.0)
            self.kernel(
                alike,
                [p.grad for p in alike],
                averages,
                squares,
                [],
                steps.unbind(),
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )
        return None

    def _collected(self, group: dict[str, Any]) -> Iterable[_Lists]:
        """The parameters of a group with their state, for each dtype and device."""
        alike = defaultdict(list)
        for p in group["params"]:
            if not self.state[p]:
                self.state[p] = {
                    "step": torch.zeros((), dtype=torch.float32, device=p.device),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
            alike[p.dtype, p.device].append(p)
        for parameters in alike.values():
            averages, squares, counts = (
                [self.state[p][name] for p in parameters]
                for name in ("exp_avg", "exp_avg_sq", "step")
            )
            steps = torch.stack(counts)  # one tensor, so that one operation counts all of them
            for p, count in zip(parameters, steps.unbind(), strict=True):
                self.state[p]["step"] = count
            yield group, parameters, averages, squares, steps


class Adam(_Fused, torch.optim.Adam):
    """`torch.optim.Adam(fused=True)`, with weight decay as part of the gradient."""

    kernel = staticmethod(torch._fused_adam_)


class AdamW(_Fused, torch.optim.AdamW):
    """`torch.optim.AdamW(fused=True)`, with decoupled weight decay."""

    kernel = staticmethod(torch._fused_adamw_)


_Lists = tuple[dict[str, Any], list[nn.Parameter], list[Tensor], list[Tensor], Tensor]
