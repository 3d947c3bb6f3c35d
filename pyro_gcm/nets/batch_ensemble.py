"""Layers of K networks that share their weights and differ by scales of their inputs and outputs.

BatchEnsemble (Wen et al. 2020) as TabM has it (Gorishniy et al., ICLR 2025). The package `tabm` has
these layers too; here the members come first, [K, B, d], and every product is one that
`prediction.base_samples` makes independent of the batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from pyro_gcm._utils.validation import one_of

SCALINGS = ("input", "output")


def _columns(values: Tensor, index: Tensor) -> Tensor:
    return values if len(index) == values.shape[1] else values.index_select(1, index)


def _signs(*shape: int) -> Tensor:
    return torch.randint(0, 2, shape) * 2.0 - 1.0


def _product(a: Tensor, weight: Tensor, r: Tensor, s: Tensor, bias: Tensor) -> Tensor:
    """W (R_k a_k) S_k + b_k; the scales multiply the weights, which are fewer than the rows."""
    own = s[:, :, None] * weight * r[:, None]  # [K, width, in_dim]
    return torch.baddbmm(bias[:, None], a, own.transpose(1, 2))


class FirstLayer(nn.Module):
    """W (R_k x) S_k + b_k, from features that all members share to [K, B, width].

    :param capacity: number of features there is room for; `forward` gets some of them.
    :param scaling: where the members differ at first by random signs: "input", in R, by which each
        sees the features otherwise; or "output", in S without an R, which is cheaper where there
        are many features.
    """

    def __init__(self, capacity: int, width: int, members: int, scaling: str = "input") -> None:
        super().__init__()
        one_of("scaling", scaling, SCALINGS)
        self.weight = nn.Parameter(torch.randn(width, capacity) / math.sqrt(capacity))
        by_input = scaling == "input"
        self.r = nn.Parameter(_signs(members, capacity)) if by_input else None
        self.s = nn.Parameter(torch.ones(members, width) if by_input else _signs(members, width))
        self.bias = nn.Parameter(torch.rand(members, width) - 0.5)

    @torch.no_grad()
    def rescale(self, before: int, now: int) -> None:
        """Keep the size of the outputs when the number of features changes."""
        self.weight.mul_(math.sqrt(before / now))

    def forward(self, features: Tensor, active: Tensor) -> Tensor:
        """[B, A] -> [K, B, width], for the features with indices `active` [A]."""
        weight = _columns(self.weight, active)
        if self.r is None:
            shared = linear(features, weight).unsqueeze(0)
            return torch.addcmul(self.bias[:, None], shared, self.s[:, None])
        r = _columns(self.r, active)
        shared = features.expand(len(r), *features.shape)
        return _product(shared, weight, r, self.s, self.bias)


class NextLayer(nn.Module):
    """W (R_k a) S_k + b_k, [K, B, in_dim] -> [K, B, width]."""

    def __init__(self, in_dim: int, width: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, in_dim) * math.sqrt(2.0 / in_dim))
        self.r = nn.Parameter(torch.ones(members, in_dim))
        self.s = nn.Parameter(torch.ones(members, width))
        self.bias = nn.Parameter(0.2 * torch.rand(members, width) - 0.1)

    def forward(self, a: Tensor) -> Tensor:
        """[K, B, in_dim] -> [K, B, width]."""
        return _product(a, self.weight, self.r, self.s, self.bias)


class OwnLayer(nn.Module):
    """W_k a + b_k: weights of their own for every member, [K, B, in_dim] -> [K, B, width]."""

    def __init__(self, in_dim: int, width: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(members, in_dim, width) * 0.5 / math.sqrt(in_dim))
        self.bias = nn.Parameter(torch.zeros(members, width))

    def forward(self, a: Tensor) -> Tensor:
        """[K, B, in_dim] -> [K, B, width]."""
        return torch.baddbmm(self.bias[:, None], a, self.weight)
