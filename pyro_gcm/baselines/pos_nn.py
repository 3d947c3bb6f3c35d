"""PosNN: a network with non-negative weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from pyro_gcm._utils.validation import one_of
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import NonNegativeLinear, OneStream, TwoStreamBody


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
        one_of("form", form, list(NETWORKS))
        self.network = NETWORKS[form](x_dim, r_dim, hidden)


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


#: Name of a form -> its network.
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "paper": TwoStreamBody,
    "released": partial(OneStream, linear=NonNegativeLinear),
    "canonical": _sigmoid_layer,
}
