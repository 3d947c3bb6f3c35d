"""SMNN: layers with three kinds of units, one of them monotone (Kim & Lee 2024)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._utils.validation import positive_int
from pyro_gcm.baselines.baseline import Baseline, ResponseName
from pyro_gcm.baselines.clip import clip


class SMNN(Baseline):
    """Scalable monotonic network of exponentiated, confluence and ReLU units.

    From the units e, c, q of the layer below (e = r, q = x, no c in the first) a layer computes

        e' = R([e, c] exp(We) + be)    c' = R(q Wc + bc)    q' = relu(q Wq + bq)

    with R(v) = 0.99 clip(v, 0, 1) + 0.01 v, and the score is [e, c, q] exp(Wo) + bo. Only e depends
    on r. With the published initialisation most weights exp(W) are near 0, and training takes about
    ten times as many steps as for the other baselines.

    :param hidden: units of each of the three kinds in a layer.
    :param layers: number of layers; 2 or 3 in Kim & Lee (2024).
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: ResponseName = "binary",
        hidden: int = 16,
        layers: int = 2,
    ) -> None:
        super().__init__(x_dim, r_dim, response=response)
        x_dim, r_dim = self.x_dim, self.r_dim
        width = positive_int("hidden", hidden)
        depth = positive_int("layers", layers)
        # The parts of We for e (with the bias) and for c; `nn.Linear` holds the exponents.
        self.exp_units = nn.ModuleList(
            nn.Linear(r_dim if i == 0 else width, width) for i in range(depth)
        )
        self.exp_from_confluence = nn.ModuleList(
            nn.Linear(width, width, bias=False) for _ in range(depth - 1)
        )
        below = [x_dim] + [width] * (depth - 1)
        self.confluence_units = nn.ModuleList(nn.Linear(size, width) for size in below)
        self.relu_units = nn.ModuleList(nn.Linear(size, width) for size in below)
        self.output = nn.Linear(width, 1, bias=False)
        self.output_from_x = nn.Linear(2 * width, 1)
        self._draw_weights()

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contributions of x to the exponentiated units and to the score.

        :returns: one tensor [..., hidden] for each of the layers 2, 3, ..., and one [..., 1].
        """
        parts, q = [], x
        for i, (confluence, relu) in enumerate(
            zip(self.confluence_units, self.relu_units, strict=True)
        ):
            c, q = _bounded(confluence(q)), torch.relu(relu(q))
            if i < len(self.exp_from_confluence):
                parts.append(_exp_linear(c, self.exp_from_confluence[i]))
        return (*parts, _exp_linear(torch.cat([c, q], -1), self.output_from_x))

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...]."""
        *parts, from_x = encoded
        e = _bounded(_exp_linear(r, self.exp_units[0]))
        for part, layer in zip(parts, self.exp_units[1:], strict=True):
            e = _bounded(_exp_linear(e, layer) + part)
        return (_exp_linear(e, self.output) + from_x).squeeze(-1)

    def _draw_weights(self) -> None:
        """The published initialisation."""
        for layer in [*self.exp_units, *self.exp_from_confluence]:
            nn.init.uniform_(layer.weight, -20.0, 2.0)
        for layer in [self.output, self.output_from_x]:
            _truncated_normal(layer.weight, -10.0, 3.0)
        for layer in [*self.confluence_units, *self.relu_units]:
            nn.init.xavier_uniform_(layer.weight)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                _truncated_normal(parameter, 0.0, 0.5)


def _bounded(v: Tensor) -> Tensor:
    """ReLU-1 with a leak of 0.01 on both sides."""
    return 0.99 * clip(v, 0.0, 1.0) + 0.01 * v


def _exp_linear(inputs: Tensor, layer: Any) -> Tensor:
    # Any, since the type of the elements of a ModuleList is Module.
    return functional.linear(inputs, layer.weight.exp(), layer.bias)


def _truncated_normal(parameter: Tensor, mean: float, sd: float) -> None:
    nn.init.trunc_normal_(parameter, mean, sd, mean - 2 * sd, mean + 2 * sd)
