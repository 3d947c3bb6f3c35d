"""A probability that does not depend on x."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConstantLogits(nn.Module):
    """x [..., x_dim] -> learned logits [..., *shape], the same for every x; they start at 5 %.

    The probability p0 of an infinite cost (paper, appendix C) where it is a constant.
    """

    START = -3.0

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.full(shape, self.START))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of batch shape `x.shape[:-1]`."""
        # A sum, since under no_grad a view of a parameter would still ask for a gradient.
        return self.logits + x.new_zeros(*x.shape[:-1], *self.logits.shape)
