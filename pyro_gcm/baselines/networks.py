"""Networks and layers that several baselines share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class OneStream(nn.Module):
    """Layers one after the other, which x and r enter together.

        u0 = Wx x + P(Wr) r + b    u1 = P(W1) f(u0) + b1    out = P(W2) f(u1) + b2

    :param hidden: width of the hidden layers.
    :param linear: the layers from r on, of weights P(W).
    :param activation: f.
    :param layers: hidden layers; with one, u1 is left out.
    """

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        hidden: int,
        linear: Any = nn.Linear,
        activation: Callable[[Tensor], Tensor] = torch.tanh,
        layers: int = 2,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.x_layer = nn.Linear(x_dim, hidden)
        self.r_layer = linear(r_dim, hidden, bias=False)
        self.hidden = nn.ModuleList(linear(hidden, hidden) for _ in range(layers - 1))
        self.output = linear(hidden, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x to the first layer, [..., hidden]."""
        return (self.x_layer(x),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Scores [..., 1] for r [..., r_dim]."""
        h = self.activation(encoded[0] + self.r_layer(r))
        for layer in self.hidden:
            h = self.activation(layer(h))
        return self.output(h)


class TwoStreamBody(nn.Module):
    """Three layers with only non-negative weights and increasing activations for r.

    The free stream of x is added to the increasing stream of r in every layer (the shared
    architecture of the paper, section 4.1):

        a0 = Wx x + bx            u0 = P(Wr) r + br + a0
        a1 = Wx1 tanh(a0) + bx1   u1 = P(Wr1) f(u0) + br1 + a1
        out = P(Wr2) f(u1) + Wx2 tanh(a1) + b2

    :param hidden: width of both hidden layers of both streams.
    :param outputs: number of outputs.
    :param activation: f, increasing in every unit, from [..., hidden] to [..., hidden].
    """

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        hidden: int,
        outputs: int = 1,
        activation: Callable[[Tensor], Tensor] = torch.tanh,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.x_layers = nn.ModuleList(
            [nn.Linear(x_dim, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)]
        )
        self.r_layers = nn.ModuleList(
            [
                NonNegativeLinear(r_dim, hidden),
                NonNegativeLinear(hidden, hidden),
                NonNegativeLinear(hidden, outputs, bias=False),
            ]
        )

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contributions of x [..., x_dim]: [..., hidden], [..., hidden] and [..., outputs]."""
        first, second, last = self.x_layers
        a0 = first(x)
        a1 = second(torch.tanh(a0))
        return a0, a1, last(torch.tanh(a1))

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Outputs [..., outputs], increasing in r [..., r_dim]."""
        a0, a1, a2 = encoded
        first, second, last = self.r_layers
        h = self.activation(first(r) + a0)
        h = self.activation(second(h) + a1)
        return last(h) + a2


def softplus_10(weight: Tensor) -> Tensor:
    """P(W) = softplus(10 W) / 10, the paper's map to positive weights (appendix E.1)."""
    # torch's softplus switches to the identity at 20, where it decreases by 2e-9 in float64.
    return functional.logsigmoid(-10.0 * weight) / -10.0


class NonNegativeLinear(nn.Linear):
    """Linear layer with the weights P(W), `softplus_10(W)`.

    `weight` holds W, initialised as in `torch.nn.Linear`; `positive` is P.
    """

    positive: Callable[[Tensor], Tensor] = staticmethod(softplus_10)

    def forward(self, values: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return functional.linear(values, self.positive(self.weight), self.bias)


def clip(values: Tensor, low: float = -math.inf, high: float = math.inf) -> Tensor:
    """`values.clamp(low, high)`, whose gradient here takes one operation instead of five.

    The gradient is 0 at the bounds, where that of `clamp` is 1.
    """
    return functional.hardtanh(values, low, high)
