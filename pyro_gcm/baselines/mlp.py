"""An unconstrained MLP, the reference for the effect of monotonicity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pyro_gcm._utils.validation import positive_int
from pyro_gcm.baselines.baseline import Baseline, ResponseName


class MLP(Baseline):
    """Three-layer MLP of [x, r] with tanh activations (the architecture of the paper, section 4.1).

    :param hidden: width of both hidden layers.
    """

    def __init__(
        self, x_dim: int, r_dim: int, *, response: ResponseName = "binary", hidden: int = 16
    ) -> None:
        super().__init__(x_dim, r_dim, response=response)
        x_dim, r_dim = self.x_dim, self.r_dim
        hidden = positive_int("hidden", hidden)
        self.x_layer = nn.Linear(x_dim, hidden)
        self.r_layer = nn.Linear(r_dim, hidden, bias=False)
        self.hidden = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x to the first layer, [..., hidden]."""
        return (self.x_layer(x),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...]."""
        first = torch.tanh(encoded[0] + self.r_layer(r))
        return self.output(torch.tanh(self.hidden(first))).squeeze(-1)
