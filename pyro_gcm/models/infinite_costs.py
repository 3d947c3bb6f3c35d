"""The part of a model that says how likely a cost is infinite, and where it starts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from pyro_gcm._utils.validation import one_of
from pyro_gcm.nets import ConstantLogits
from pyro_gcm.nets.conditional import mlp


def infinite_part(p0: Any, x_dim: int, shape: tuple[int, ...], hidden: Any) -> nn.Module | None:
    """Logits of the probability that a cost is infinite: x -> [..., *shape], or None for never.

    :param shape: (), or (G,) with several alternatives.
    """
    if p0 is None or isinstance(p0, nn.Module):
        return p0
    one_of("p0", p0, ["constant", "conditional"])
    if p0 == "constant":
        return ConstantLogits(shape)
    network = mlp(x_dim, math.prod(shape), hidden)
    nn.init.constant_(network[-1].bias, ConstantLogits.START)  # type: ignore[arg-type]
    return network if shape else nn.Sequential(network, nn.Flatten(-2))


def start(part: Any, never: float | None, shape: tuple[int, ...]) -> None:
    """Start what `infinite_part` made where all alternatives are infinite with a probability.

    :param never: that probability, or None to leave it.
    """
    if never is None:
        return
    each = torch.tensor(never ** (1.0 / math.prod(shape))).logit()
    last = [bias for name, bias in part.named_parameters() if name.endswith(("logits", "bias"))][-1]
    nn.init.constant_(last, each.item())
