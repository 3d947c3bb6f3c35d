"""Increasing maps of the revenues; costs are compared with their outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributions.transforms import Transform

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.distributions.numerics import coarse, on_grid
from pyro_gcm.nets.products import kept, linear


@recorded("nets.PositiveLinear")
class PositiveLinear(nn.Module):
    """h_gk(r) = sum_m P(W)_gkm r_m with P(W) = softplus(10 W) / 10 (paper, appendix E.1).

    The weights are non-negative, so every output is non-decreasing in every revenue.

    :param r_dim: number of revenues m.
    :param event_shape: (K,) or (G, K), the event shape of the costs.
    """

    def __init__(self, r_dim: int, event_shape: Sequence[int]) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        r_dim = positive_int("r_dim", r_dim, minimum=0)
        # Random weights around 1/m, which make the alternatives different.
        self.raw_weight = nn.Parameter(torch.empty(*self.event_shape, r_dim))
        self.start_around(1.0 / max(1, r_dim), slice(None))

    @torch.no_grad()
    def start_around(self, mean: float, columns: slice) -> None:
        """Random weights between 0 and twice their mean for some of the inputs."""
        raw = self.raw_weight[..., columns]
        start = torch.rand(raw.shape) * 2.0 * mean
        raw.copy_(torch.log(torch.expm1(10.0 * start.clamp(min=1e-3))) / 10.0)

    @property
    def weight(self) -> Tensor:
        """The weights P(W), [(G,) K, m]."""
        return nn.functional.softplus(10.0 * self.raw_weight) / 10.0

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (G,) K]."""
        mapped = linear(r, kept(self, lambda _: self.weight.flatten(0, -2), self.raw_weight))
        return mapped.reshape(*r.shape[:-1], *self.event_shape)


@recorded("nets.Probit")
class Probit(nn.Module):
    """h(r) = Phi^-1(r) for revenues such as quantile levels; 0 and 1 map to -inf and inf.

    Levels, and those above 1/2 by their distances from 1, are rounded relatively (`coarse`).
    """

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        level, lower = r.double(), r < 0.5
        x = torch.special.ndtri(coarse(torch.where(lower, level, 1.0 - level)))
        return torch.where(lower, x, -x).to(r.dtype)


@recorded("nets.Sigmoid")
class Sigmoid(nn.Module):
    """h(r) = 1 / (1 + exp(-r)), the bounded map of the paper, appendix C.

    A cost above 1 exceeds h(r) for every revenue, so the probability need not tend to 1. It is
    computed in float64 on a grid of inputs (`on_grid`), between which rounding cannot make it fall.
    """

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m], in (0, 1)."""
        return torch.sigmoid(on_grid(r)).to(r.dtype)


@recorded("nets.Bijection")
class Bijection(nn.Module):
    """An increasing bijection of one variable, given as a torch transform, for every revenue.

    It is computed in float64 on a grid of inputs (`on_grid`), between which rounding cannot make it
    fall. Tensors inside the transform are not moved to another device.

    :param transform: a transform such as `SigmoidTransform()`, `ExpTransform()` or a
        `ComposeTransform`. A transform that does not define `sign` is assumed to be increasing.
    :raises TypeError: if it is not a `Transform`.
    :raises ValueError: if it is not bijective, not increasing, or mixes columns.

    >>> Bijection(torch.distributions.transforms.ExpTransform())(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        if not isinstance(transform, Transform):
            raise TypeError(f"revenue_map must be a torch Transform, got {transform!r}")
        if not transform.bijective:
            raise ValueError(f"revenue_map must be a bijection, got {transform!r}")
        if transform.domain.event_dim != 0 or transform.codomain.event_dim != 0:
            raise ValueError(f"revenue_map must act on each revenue alone, got {transform!r}")
        try:
            sign = torch.as_tensor(transform.sign)
        except NotImplementedError:
            sign = torch.tensor(1)
        if not (sign > 0).all():
            raise ValueError(
                f"revenue_map must be increasing, got {transform!r} with sign {sign.tolist()}"
            )
        self.transform = transform

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        return self.transform(on_grid(r)).to(r.dtype)
