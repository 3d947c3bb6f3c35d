"""Distributions of z that GCM offers by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm.nets.conditional import Conditional


class StandardNormal(nn.Module):
    """N(0, I), whatever the context."""

    loc: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, context: Tensor | None = None) -> Any:
        """The distribution, of batch shape ()."""
        return dist.Normal(self.loc, self.scale).to_event(1)


class AmortizedGuide(nn.Module):
    """q(z | x), a diagonal normal; it does not read r or y, so predictions may use it."""

    def __init__(self, x_dim: int, z_dim: int, hidden: int | Sequence[int] = 16) -> None:
        super().__init__()
        self.q_z = Conditional(dist.Normal, x_dim, (z_dim,), hidden)

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution for standardised x [B, x_dim]."""
        return self.q_z(x)
