"""What makes a step of members' training cheap: a product with the rows beside, and dropout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class ByteDropout(nn.Dropout):
    """Dropout whose mask costs a sixth of `nn.Dropout`'s on a CPU.

    A byte of torch's generator decides for an element, so that the probability is p rounded to a
    multiple of 1/256; what is kept is scaled by the rounded one. On a GPU it is `nn.Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input [...], in training with some elements at 0 and the others scaled."""
        dropped = round(256 * self.p)
        if not self.training or not 0 < dropped < 256 or input.device.type in ("cuda", "mps"):
            return super().forward(input)
        draws = torch.empty(-(-input.numel() // 8), dtype=torch.int64, device=input.device)
        draws = draws.random_(-(2**63), None).view(torch.uint8)[: input.numel()].view(input.shape)
        # 1 where the byte is `dropped` or more, else 0, without a mask of bools, which is slow.
        kept = draws.clamp_(dropped - 1, dropped).sub_(dropped - 1).to(input.dtype)
        return input * kept.mul_(256 / (256 - dropped))


class _Planes(torch.autograd.Function):
    """a_k W_k + b_k as [K, width, B]; the gradient of a [K, B, in_dim] lies in memory as a does."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(a, weight)
        return torch.baddbmm(bias[:, :, None], weight.mT, a.mT)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (by_planes,), (a, weight) = grad_outputs, ctx.saved_tensors
        by_weight = torch.bmm(by_planes, a).mT.contiguous()
        return torch.bmm(by_planes.mT, weight.mT), by_weight, by_planes.sum(-1)


#: (a [K, B, in_dim], W [K, in_dim, width], b [K, width]) -> a_k W_k + b_k, [K, width, B].
planes = _Planes.apply
