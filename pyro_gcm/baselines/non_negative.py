"""A linear layer with non-negative weights."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class NonNegativeLinear(nn.Linear):
    """Linear layer with the weights P(W) = softplus(10 W) / 10 (paper, appendix E.1).

    `weight` holds W, initialised as in `torch.nn.Linear`.
    """

    def forward(self, values: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return functional.linear(values, softplus(10.0 * self.weight) / 10.0, self.bias)


def softplus(values: Tensor) -> Tensor:
    """log(1 + exp(v)), increasing also in float64.

    `torch.nn.functional.softplus` switches to the identity at 20, where it decreases by 2e-9.
    """
    return -functional.logsigmoid(-values)
