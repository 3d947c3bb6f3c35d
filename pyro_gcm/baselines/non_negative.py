"""PosNN, CMNN and SMNN: networks with non-negative weights between r and the score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.validation import one_of
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import NonNegativeLinear, OneStream, TwoStreamBody, clip


class PosNN(Baseline):
    """Network whose weights between r and the score are non-negative.

    :param hidden: width of the hidden layers.
    :param form: "paper" is the two-stream body with tanh that the paper describes (section 4.1).
        "released" is what its released code trains for Table 3: x and r enter one layer together,
        and every weight after it is non-negative too. "canonical" is one hidden layer of sigmoids
        with x as unconstrained inputs (Archer and Wang, Decision Sciences 1993), where P(W) instead
        of an update rule keeps the weights non-negative.
    :param options: of `Baseline`: response.
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        hidden: int = 16,
        form: Literal["paper", "released", "canonical"] = "paper",
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        self.network = POS_NN_FORMS[form](x_dim, r_dim, hidden)


def _sigmoid_layer(x_dim: int, r_dim: int, hidden: int) -> OneStream:
    """One hidden layer: P(v) sigmoid(Wx x + P(Wr) r + b) + c."""
    network = OneStream(x_dim, r_dim, hidden, NonNegativeLinear, torch.sigmoid, layers=1)
    # Compared with tanh, a sigmoid has half the range, a quarter of the slope, and values around
    # 1/2. With the usual small weights the score is nearly constant, and training takes several
    # times as long. Output weights with a sum of about 8 avoid this; the bias centres the score.
    with torch.no_grad():
        start = 16.0 / hidden * torch.rand(1, hidden)
        network.output.weight.copy_(torch.log(torch.expm1(10.0 * start.clamp(min=1e-3))) / 10.0)
        network.output.bias.copy_(-0.5 * start.sum(1))
    return network


#: Name of a form of PosNN -> its network.
POS_NN_FORMS: dict[str, Callable[..., nn.Module]] = {
    "paper": TwoStreamBody,
    "released": partial(OneStream, linear=NonNegativeLinear),
    "canonical": _sigmoid_layer,
}


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
        self.form = form
        self.network = CMNN_FORMS[form](x_dim, r_dim, hidden)


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


#: Name of a form of CMNN -> its network.
CMNN_FORMS: dict[str, Callable[..., nn.Module]] = {
    "paper": partial(TwoStreamBody, activation=softplus_thirds),
    "released": partial(TwoStreamBody, activation=elu_thirds),
    "type1": partial(OneStream, linear=AbsLinear, activation=elu_split),
    "type2": TypeTwo,
}


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
        # The parts of We for e (with the bias) and for c.
        self.exp_units = nn.ModuleList(
            linear_of_e(r_dim if i == 0 else hidden, hidden) for i in range(layers)
        )
        self.exp_from_confluence = nn.ModuleList(
            linear_of_x(hidden, hidden, bias=False) for _ in range(layers - 1)
        )
        below = [x_dim] + [hidden] * (layers - 1)
        self.confluence_units = nn.ModuleList(nn.Linear(size, hidden) for size in below)
        self.relu_units = nn.ModuleList(nn.Linear(size, hidden) for size in below)
        self.output = linear_of_e(hidden, 1, bias=False)
        self.output_from_x = linear_of_x(2 * hidden, 1)
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
