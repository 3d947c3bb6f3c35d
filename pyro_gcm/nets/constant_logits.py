"""A probability that does not depend on x."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pyro_gcm._recipe import recorded


@recorded("nets.ConstantLogits")
class ConstantLogits(nn.Module):
    """A map from x [..., x_dim] to learned logits [..., *shape] that do not depend on x.

    It is the constant form of the probability p0 of an infinite cost (paper, appendix C). The
    initial probability is 5 %.
    """

    START = -3.0

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.full(shape, self.START))

    def forward(self, x: Tensor) -> Tensor:
        """Logits with batch shape `x.shape[:-1]`."""
        # A sum, because a view of a parameter requires a gradient even under no_grad.
        return self.logits + x.new_zeros(*x.shape[:-1], *self.logits.shape)
