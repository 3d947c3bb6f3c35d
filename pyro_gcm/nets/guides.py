"""Guides, which differ in whether they read x, r and y."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm.nets.conditional import joined, with_missing_indicators


@recorded("nets.AmortizedGuide")
class AmortizedGuide(nn.Module):
    """q(z | x) (paper, section 3.3), which predictions may use since it does not read r or y.

    :param q_z: a network from a context to a distribution of z, such as `Conditional`,
        `ConditionalFlow` or `ConditionalMixture`. Its context has x_dim columns, or 2 x_dim with
        `missing_indicators`.
    :param missing_indicators: whether to pass `with_missing_indicators(x)` to the network, for x
        with missing values (NaN); otherwise x is passed.

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.nets import Conditional
    >>> guide = AmortizedGuide(Conditional(dist.Normal, 2, (3,)))
    >>> guide(torch.zeros(5, 2)).batch_shape
    torch.Size([5])
    """

    def __init__(self, q_z: nn.Module, missing_indicators: bool = False) -> None:
        super().__init__()
        self.q_z = q_z
        self.missing_indicators = missing_indicators

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution of z, with batch shape [B], for standardised x [B, x_dim]."""
        return self.q_z(with_missing_indicators(x) if self.missing_indicators else x)


@recorded("nets.PosteriorGuide")
class PosteriorGuide(AmortizedGuide):
    """q(z | x, r, y), a guide for training only, with a tighter bound than q(z | x).

    Predictions do not use it, since they have no y, and a distribution of z that depends on r would
    break the monotonicity in r.

    :param q_z: a network from a context to a distribution of z. Its context is [x, r, y], with
        x_dim + r_dim + 1 columns, or 2 (x_dim + r_dim) + 1 with `missing_indicators`.
    :param missing_indicators: whether to pass `with_missing_indicators` of x and r to the network,
        for missing values (NaN); y is passed unchanged.

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.nets import Conditional
    >>> guide = PosteriorGuide(Conditional(dist.Normal, 2 + 4 + 1, (3,)))
    >>> guide(torch.zeros(5, 2), torch.zeros(5, 4), torch.ones(5)).batch_shape
    torch.Size([5])
    """

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution of z, with batch shape [B].

        :param x: [B, x_dim]; `r`: [B, r_dim]; both standardised.
        :param y: outcomes, [B], standardised if they are continuous.
        :raises ValueError: if r or y is None.
        """
        if r is None or y is None:
            missing = " and ".join(name for name, v in (("r", r), ("y", y)) if v is None)
            raise ValueError(f"q(z|x, r, y) needs r and y, got None for {missing}")
        columns = torch.cat([x, r], dim=-1)
        if self.missing_indicators:
            columns = with_missing_indicators(columns)
        return self.q_z(torch.cat([columns, y.to(columns.dtype).unsqueeze(-1)], dim=-1))


@recorded("nets.RevenueGuide")
class RevenueGuide(nn.Module):
    """q(k | x, r), the guide of the kernel of IGCM (paper, section 3.4).

    :param q_k: a network from the context [x, r] to a distribution of k.
    """

    def __init__(self, q_k: nn.Module) -> None:
        super().__init__()
        self.q_k = q_k

    def forward(self, x: Tensor, r: Tensor, y: Tensor | None = None) -> Any:
        """The distribution for standardised x [..., x_dim] and r [..., r_dim], which broadcast."""
        return self.q_k(joined(x, r))
