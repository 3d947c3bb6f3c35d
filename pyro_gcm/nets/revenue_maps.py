"""Increasing maps from the revenues to what the costs are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Identity(nn.Module):
    """h(r) = r: one cost for each revenue, the model of the paper."""

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        return r


class PositiveLinear(nn.Module):
    """h_gk(r) = sum_m P(W)_gkm r_m with P(W) = softplus(10 W) / 10 (paper, appendix E.1).

    Non-negative weights, so every output rises with every revenue.

    :param r_dim: number of revenues m.
    :param event_shape: (K,) or (G, K), the event shape of the costs.
    """

    def __init__(self, r_dim: int, event_shape: Sequence[int]) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        # Weights around 1/m, unequal enough for the alternatives to part.
        start = torch.rand(*self.event_shape, r_dim) * 2.0 / r_dim
        self.raw_weight = nn.Parameter(torch.log(torch.expm1(10.0 * start.clamp(min=1e-3))) / 10.0)

    @property
    def weight(self) -> Tensor:
        """The weights P(W), [(G,) K, m]."""
        return nn.functional.softplus(10.0 * self.raw_weight) / 10.0

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (G,) K]."""
        mapped = nn.functional.linear(r, self.weight.flatten(0, -2))
        return mapped.reshape(*r.shape[:-1], *self.event_shape)


class Probit(nn.Module):
    """h(r) = Phi^-1(r) for revenues in (0, 1), such as quantile levels; 0 and 1 map to -+inf."""

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        return torch.special.ndtri(r.double()).to(r.dtype)
