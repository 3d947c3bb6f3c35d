"""Increasing maps from the revenues to what the costs are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributions.transforms import Transform


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


class Sigmoid(nn.Module):
    """h(r) = 1 / (1 + exp(-r)), the bounded map of the paper's appendix C.

    However large the revenue, a cost above 1 stays above it: the probability need not go to 1.
    Float32 goes through float64: torch's float32 code for single values gives other bits than its
    code for vectors, so that between two calls h could fall.
    """

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m], in (0, 1)."""
        return torch.sigmoid(r.double()).to(r.dtype)


class Bijection(nn.Module):
    """h(r) from a torch transform: any increasing bijection of one variable, for every revenue.

    It is computed in float64 and rounded to the dtype of r, so that rounding does not make float32
    values fall. Tensors inside the transform stay on their device.

    :param transform: such as `SigmoidTransform()`, `ExpTransform()` or a `ComposeTransform`. Its
        `sign` is checked where it has one; a transform without is trusted to increase.
    :raises TypeError: for what is no `Transform`.
    :raises ValueError: for a transform that is no bijection, decreases, or mixes columns.

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
                f"revenue_map must be increasing, got {transform!r} of sign {sign.tolist()}"
            )
        self.transform = transform

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        mapped: Tensor = self.transform(r.double())
        return mapped.to(r.dtype)
