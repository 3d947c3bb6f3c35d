"""What makes a step of members' training cheap: a product with the rows beside, and dropout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import in_transform


class ThinnedReLU(nn.Dropout):
    """ReLU, and dropout whose mask costs a sixth of `nn.Dropout`'s on a CPU; in place.

    A byte of torch's generator decides for an element, so that the probability is p rounded to a
    multiple of 1/256; what is kept is scaled by the rounded one. On a GPU it is `nn.Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input [...], in training with some elements at 0 and the others scaled."""
        dropped = round(256 * self.p)
        plain = not self.training or not 0 < dropped < 256 or in_transform()
        if plain or input.device.type in ("cuda", "mps"):
            return super().forward(input.relu_())
        thinned: Tensor = _ThinnedReLU.apply(input, dropped)
        return thinned


class _ThinnedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, dropped: int) -> Tensor:
        draws = torch.empty(-(-a.numel() // 8), dtype=torch.int64, device=a.device)
        draws = draws.random_(-(2**63), None).view(torch.uint8)[: a.numel()].view(a.shape)
        # 1 where the byte is `dropped` or more, else 0, without a mask of bools, which is slow.
        kept = draws.clamp_(dropped - 1, dropped).sub_(dropped - 1).to(a.dtype)
        ctx.scale = 256 / (256 - dropped)
        a.relu_().mul_(kept.mul_(ctx.scale))
        ctx.mark_dirty(a)
        ctx.save_for_backward(a)
        return a

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (kept,) = ctx.saved_tensors  # above 0 where it is neither below 0 nor dropped
        return torch.ops.aten.threshold_backward(grad_outputs[0], kept, 0.0).mul_(ctx.scale), None


class _Planes(torch.autograd.Function):
    """a_k W_k + b_k as [K, width, B]; the gradient of a [K, B, in_dim] lies in memory as a does."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(a, weight)
        return torch.baddbmm(bias[:, :, None], weight.mT, a.mT)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (by_planes,) = grad_outputs
        a, weight = (saved.to(by_planes.dtype) for saved in ctx.saved_tensors)  # after `autocast`
        by_weight = torch.bmm(by_planes, a).mT.contiguous()
        return torch.bmm(by_planes.mT, weight.mT), by_weight, by_planes.sum(-1)


#: (a [K, B, in_dim], W [K, in_dim, width], b [K, width]) -> a_k W_k + b_k, [K, width, B].
planes = _Planes.apply
