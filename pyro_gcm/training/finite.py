"""Whether the numbers of a training are finite, and the bound on its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor


class Diverged(RuntimeError):
    """Loss, gradient or weights of a training are infinite or NaN.

    The model has the weights of the last epoch that was finished, which are in the checkpoint, too.
    """


def clip_gradients(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """Clip gradients like `torch.nn.utils.clip_grad_norm_`, bit for bit, with less overhead.

    :param max_norm: the bound, or None to leave the gradients as they are.
    :returns: the norm before; inf or NaN if a gradient is, or where its square overflows.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    # On a CPU the norm can be read at no cost; a smaller one would be multiplied by exactly 1.
    on_cpu = norm.device.type == "cpu"
    if max_norm is not None and not (on_cpu and float(norm) < 0.99 * max_norm - 1e-6):
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def not_finite(loss: float, norm: float) -> str:
    """The message about a step whose loss or gradient norm is not finite; empty where both are."""
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    return "" if math.isfinite(norm) else f"the norm of the gradient is {norm}"
