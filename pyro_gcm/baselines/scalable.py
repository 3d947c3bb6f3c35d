"""SMNN: layers with three kinds of units, one of them monotone (Kim & Lee 2024)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import NonNegativeLinear, clip


class SMNN(Baseline):
    """Scalable monotonic network of exponentiated, confluence and ReLU units.

    From the units e, c, q of the layer below (e = r, q = x, no c in the first) a layer computes

        e' = R([e, c] exp(We) + be)    c' = R(q Wc + bc)    q' = relu(q Wq + bq)

    with R(v) = 0.99 clip(v, 0, 1) + 0.01 v, and the score is [e, c, q] exp(Wo) + bo. Only e depends
    on r. With the published initialisation most weights exp(W) are near 0, and training takes about
    ten times as many steps as for the other baselines.

    :param hidden: units of each of the three kinds in a layer.
    :param layers: number of layers; 2 or 3 in Kim & Lee (2024).
    :param form: "canonical" is the network above, of the method's authors. "released" is that of
        the released code behind the paper's Table 3: R(v) = clip(v, 0, 2), P(W) = softplus(10 W) /
        10 in place of exp(W) for e, unconstrained weights for c and q, and torch's initialisation.
    :param options: of `Baseline`: response.
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        hidden: int = 16,
        layers: int = 2,
        form: Literal["canonical", "released"] = "canonical",
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        one_of("form", form, ["canonical", "released"])
        self.form = form
        canonical = form == "canonical"
        linear_of_e = ExpLinear if canonical else NonNegativeLinear
        linear_of_x = ExpLinear if canonical else nn.Linear
        width = positive_int("hidden", hidden)
        depth = positive_int("layers", layers)
        # The parts of We for e (with the bias) and for c.
        self.exp_units = nn.ModuleList(
            linear_of_e(r_dim if i == 0 else width, width) for i in range(depth)
        )
        self.exp_from_confluence = nn.ModuleList(
            linear_of_x(width, width, bias=False) for _ in range(depth - 1)
        )
        below = [x_dim] + [width] * (depth - 1)
        self.confluence_units = nn.ModuleList(nn.Linear(size, width) for size in below)
        self.relu_units = nn.ModuleList(nn.Linear(size, width) for size in below)
        self.output = linear_of_e(width, 1, bias=False)
        self.output_from_x = linear_of_x(2 * width, 1)
        if canonical:
            self._draw_weights()

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contributions of x to the exponentiated units and to the score.

        :returns: one tensor [..., hidden] for each of the layers 2, 3, ..., and one [..., 1].
        """
        parts, q = [], x
        for i, (confluence, relu) in enumerate(
            zip(self.confluence_units, self.relu_units, strict=True)
        ):
            c, q = self._bounded(confluence(q)), torch.relu(relu(q))
            if i < len(self.exp_from_confluence):
                parts.append(self.exp_from_confluence[i](c))
        return (*parts, self.output_from_x(torch.cat([c, q], -1)))

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...]."""
        *parts, from_x = encoded
        e = self._bounded(self.exp_units[0](r))
        for part, layer in zip(parts, self.exp_units[1:], strict=True):
            e = self._bounded(layer(e) + part)
        return (self.output(e) + from_x).squeeze(-1)

    def _bounded(self, v: Tensor) -> Tensor:
        """R: ReLU-1 with a leak of 0.01 on both sides, or ReLU-2."""
        if self.form == "released":
            return v.clamp(0.0, 2.0)  # has a gradient at the bounds, unlike `clip`
        return 0.99 * clip(v, 0.0, 1.0) + 0.01 * v

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


class ExpLinear(nn.Linear):
    """Linear layer with the weights exp(W)."""

    def forward(self, values: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return functional.linear(values, self.weight.exp(), self.bias)


def _truncated_normal(parameter: Tensor, mean: float, sd: float) -> None:
    nn.init.trunc_normal_(parameter, mean, sd, mean - 2 * sd, mean + 2 * sd)
