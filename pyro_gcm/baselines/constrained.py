"""CMNN: a network with convex, concave and saturated activations in every layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import OneStream, TwoStreamBody


class CMNN(Baseline):
    """Constrained monotonic network (Runje and Shankaranarayana, ICML 2023).

    :param hidden: width of the hidden layers.
    :param form: "paper" is the two-stream body with softplus as base activation and a third of its
        hidden units for each of the three, as in an early version of the paper's code. "released"
        is the same body with the base activation ELU, as in the released code behind the paper's
        Table 3. "type1" and "type2" are the networks of the method's authors, with weights abs(W),
        base activation ELU and units split 7:7:2. "type1" feeds all inputs into the first of two
        hidden layers; "type2" gives every input its own units, a quarter of `hidden`, before the
        hidden layer.
    :param options: of `Baseline`: response.
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        hidden: int = 16,
        form: Literal["paper", "released", "type1", "type2"] = "paper",
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        one_of("form", form, list(NETWORKS))
        self.form = form
        self.network = NETWORKS[form](x_dim, r_dim, hidden)


def softplus_thirds(values: Tensor) -> Tensor:
    """Softplus, its concave reflection and a saturated activation, on a third of the units each."""
    third = values.shape[-1] // 3
    convex, concave, saturated = values.tensor_split([third, 2 * third], -1)
    # With softplus(v) = -logsigmoid(-v):
    # softplus(convex), -softplus(-concave), softplus(1 - relu(-s)) - softplus(1 - relu(s)).
    joined = logsigmoid(saturated.relu() - 1.0) - logsigmoid((-saturated).relu() - 1.0)
    return torch.cat([-logsigmoid(-convex), logsigmoid(concave), joined], -1)


def elu_thirds(values: Tensor) -> Tensor:
    """ELU, its concave reflection and a saturated activation, on a third of the units each."""
    return _elu_units(values, values.shape[-1] // 3)


def elu_split(values: Tensor) -> Tensor:
    """The activations of `elu_thirds`, on units in the ratio 7:7:2."""
    return _elu_units(values, round(values.shape[-1] * 7 / 16))


def _elu_units(values: Tensor, part: int) -> Tensor:
    convex, concave, saturated = values.tensor_split([part, 2 * part], -1)
    # rho(u + 1) - rho(1) below 0, rho(1) - rho(1 - u) above, where rho(1) = 1.
    joined = saturated.sign() * (1.0 - functional.elu(1.0 - saturated.abs()))
    return torch.cat([functional.elu(convex), -functional.elu(-concave), joined], -1)


class AbsLinear(nn.Linear):
    """Linear layer with the weights abs(W)."""

    def forward(self, values: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return functional.linear(values, self.weight.abs(), self.bias)


class TypeTwo(nn.Module):
    """A network with a layer for each input, followed by a layer that combines them.

    The weights for the units of x are unconstrained.
    """

    def __init__(self, x_dim: int, r_dim: int, hidden: int) -> None:
        super().__init__()
        hidden = positive_int("hidden", hidden)
        units = max(hidden // 4, 1)
        bound = (6.0 / (1 + units)) ** 0.5  # Glorot's of a layer with one input and these units
        self.x_weight = nn.Parameter(torch.empty(x_dim, units).uniform_(-bound, bound))
        self.x_bias = nn.Parameter(torch.zeros(x_dim, units))
        self.r_weight = nn.Parameter(torch.empty(r_dim, units).uniform_(-bound, bound))
        self.r_bias = nn.Parameter(torch.zeros(r_dim, units))
        self.x_layer = nn.Linear(x_dim * units, hidden)
        self.r_layer = AbsLinear(r_dim * units, hidden, bias=False)
        self.output = AbsLinear(hidden, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of the units of x to the hidden layer, [..., hidden]."""
        units = functional.elu(x.unsqueeze(-1) * self.x_weight + self.x_bias)
        return (self.x_layer(units.flatten(-2)),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Scores [..., 1]."""
        units = elu_split(r.unsqueeze(-1) * self.r_weight.abs() + self.r_bias)
        return self.output(elu_split(encoded[0] + self.r_layer(units.flatten(-2))))


#: Name of a form -> its network.
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "paper": partial(TwoStreamBody, activation=softplus_thirds),
    "released": partial(TwoStreamBody, activation=elu_thirds),
    "type1": partial(OneStream, linear=AbsLinear, activation=elu_split),
    "type2": TypeTwo,
}
