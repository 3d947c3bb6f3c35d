"""The layers of zuko's flows as predictions need them; imported with zuko, when a flow is made."""

from __future__ import annotations

import zuko
from torch import Tensor, nn

from pyro_gcm.nets.products import linear


class MaskedLinear(zuko.nn.MaskedLinear):
    """zuko's masked layer, whose rows have the same bits at every place of a block."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        return linear(x, self.mask * self.weight, self.bias)


def with_even_rows(flow: nn.Module) -> nn.Module:
    """The flow with these layers in the place of zuko's."""
    for part in flow.modules():
        if type(part) is zuko.nn.MaskedLinear:
            part.__class__ = MaskedLinear
    return flow
