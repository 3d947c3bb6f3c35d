"""Guides of z: which of x, r and y a network reads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm.nets.conditional import joined
from pyro_gcm.nets.missing import with_missing


class AmortizedGuide(nn.Module):
    """q(z | x), paper section 3.3; it does not read r or y, so predictions may use it.

    :param q_z: any network context -> distribution of z, such as `Conditional`, `ConditionalFlow`
        or `ConditionalMixture`; its context has the x_dim columns of x, or 2 x_dim with
        `marks_missing`.
    :param marks_missing: hand `with_missing(x)` to the network, for x with NaN where a value is
        missing; otherwise x goes in as it is.

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.nets import Conditional
    >>> guide = AmortizedGuide(Conditional(dist.Normal, 2, (3,)))
    >>> guide(torch.zeros(5, 2)).batch_shape
    torch.Size([5])
    """

    reads_outcome = False

    def __init__(self, q_z: nn.Module, marks_missing: bool = False) -> None:
        super().__init__()
        self.q_z = q_z
        self.marks_missing = marks_missing

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution of z, batch shape [B], for standardised x [B, x_dim]."""
        return self.q_z(with_missing(x) if self.marks_missing else x)


class PosteriorGuide(nn.Module):
    """q(z | x, r, y): a guide for training alone, a tighter bound than q(z | x).

    The posterior of z depends on what was observed. Predictions have to do without it: a z that
    reads r would break the monotonicity in r.

    :param q_z: any network context -> distribution of z, whose context is the columns of x, those
        of r and y: x_dim + r_dim + 1 of them, or 2 (x_dim + r_dim) + 1 with `marks_missing`.
    :param marks_missing: hand `with_missing` of the columns of x and r to the network, for values
        that are NaN where they are missing; y always goes in as it is.

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.nets import Conditional
    >>> guide = PosteriorGuide(Conditional(dist.Normal, 2 + 4 + 1, (3,)))
    >>> guide(torch.zeros(5, 2), torch.zeros(5, 4), torch.ones(5)).batch_shape
    torch.Size([5])
    """

    reads_outcome = True

    def __init__(self, q_z: nn.Module, marks_missing: bool = False) -> None:
        super().__init__()
        self.q_z = q_z
        self.marks_missing = marks_missing

    def forward(self, x: Tensor, r: Tensor | None = None, y: Tensor | None = None) -> Any:
        """The distribution of z, batch shape [B].

        :param x: standardised covariates, [B, x_dim].
        :param r: standardised revenues, [B, r_dim].
        :param y: outcomes, [B], standardised where they are continuous.
        :raises ValueError: where r or y is None.
        """
        if r is None or y is None:
            missing = " and ".join(name for name, v in (("r", r), ("y", y)) if v is None)
            raise ValueError(f"q(z|x, r, y) needs r and y, got None for {missing}")
        columns = torch.cat([x, r], dim=-1)
        if self.marks_missing:
            columns = with_missing(columns)
        return self.q_z(torch.cat([columns, y.to(columns.dtype).unsqueeze(-1)], dim=-1))


class RevenueGuide(nn.Module):
    """q(k | x, r), paper section 3.4: the kernel of IGCM, for training and for predictions.

    :param q_k: any network context -> distribution of k, whose context is the columns of x and r.
    """

    reads_outcome = False

    def __init__(self, q_k: nn.Module) -> None:
        super().__init__()
        self.q_k = q_k

    def forward(self, x: Tensor, r: Tensor, y: Tensor | None = None) -> Any:
        """The distribution for standardised x and r that broadcast, [..., x_dim] and [..., m]."""
        return self.q_k(joined(x, r))
