"""PosNN: a network with non-negative weights."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.baselines.baseline import Baseline, ResponseName
from pyro_gcm.baselines.two_stream import NonNegativeLinear, TwoStreamBody


class PosNN(Baseline):
    """Network whose weights between r and the score are non-negative.

    :param hidden: width of the hidden layers.
    :param form: "paper" is the two-stream body with tanh that the paper describes (section 4.1).
        "released" is what its released code trains for Table 3: x and r enter one layer together,
        and every weight after it is non-negative too. "canonical" is one hidden layer of sigmoids
        with x as unconstrained inputs (Archer and Wang, Decision Sciences 1993), where P(W) instead
        of an update rule keeps the weights non-negative.
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: ResponseName = "binary",
        hidden: int = 16,
        form: Literal["paper", "released", "canonical"] = "paper",
    ) -> None:
        super().__init__(x_dim, r_dim, response=response)
        x_dim, r_dim = self.x_dim, self.r_dim
        one_of("form", form, list(NETWORKS))
        self.network = NETWORKS[form](x_dim, r_dim, hidden)


class TanhLayers(nn.Module):
    """P(W2) tanh(P(W1) tanh(Wx x + P(Wr) r + b) + b1) + b2."""

    def __init__(self, x_dim: int, r_dim: int, hidden: int) -> None:
        super().__init__()
        hidden = positive_int("hidden", hidden)
        self.x_layer = nn.Linear(x_dim, hidden)
        self.r_layer = NonNegativeLinear(r_dim, hidden, bias=False)
        self.hidden = NonNegativeLinear(hidden, hidden)
        self.output = NonNegativeLinear(hidden, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x to the first layer, [..., hidden]."""
        return (self.x_layer(x),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Scores [..., 1]."""
        first = torch.tanh(encoded[0] + self.r_layer(r))
        return self.output(torch.tanh(self.hidden(first)))


class SigmoidLayer(nn.Module):
    """One hidden layer: P(v) sigmoid(Wx x + P(Wr) r + b) + c."""

    def __init__(self, x_dim: int, r_dim: int, hidden: int) -> None:
        super().__init__()
        hidden = positive_int("hidden", hidden)
        self.x_layer = nn.Linear(x_dim, hidden)
        self.r_layer = NonNegativeLinear(r_dim, hidden, bias=False)
        self.output = NonNegativeLinear(hidden, 1)
        # Compared with tanh, a sigmoid has half the range, a quarter of the slope, and values
        # around 1/2. With the usual small weights the score is nearly constant, and training takes
        # several times as long. Output weights with a sum of about 8 avoid this; the bias centres
        # the score at 0.
        with torch.no_grad():
            start = 16.0 / hidden * torch.rand(1, hidden)
            self.output.weight.copy_(torch.log(torch.expm1(10.0 * start.clamp(min=1e-3))) / 10.0)
            self.output.bias.copy_(-0.5 * start.sum(1))

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x to the hidden layer, [..., hidden]."""
        return (self.x_layer(x),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Scores [..., 1]."""
        return self.output(torch.sigmoid(encoded[0] + self.r_layer(r)))


#: Name of a form -> its network.
NETWORKS: dict[str, type[nn.Module]] = {
    "paper": TwoStreamBody,
    "released": TanhLayers,
    "canonical": SigmoidLayer,
}
