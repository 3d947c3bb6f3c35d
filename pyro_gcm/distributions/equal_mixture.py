"""An equally weighted mixture over draws of a latent variable."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm.distributions.families import tail_log_probs


class EqualMixture(TorchDistribution):
    """p(c | x) as the average of p(c | z_n) over N draws of z, in the units of loc + scale * c.

    :param component: independent costs of batch shape [N, ...] and event shape [K] or [G, K].
    :param loc: shift of the units, broadcast against the event shape.
    :param scale: factor of the units, > 0.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, component: TorchDistribution, loc: Tensor, scale: Tensor) -> None:
        self.component, self.loc, self.scale = component, loc, scale
        super().__init__(component.batch_shape[1:], component.event_shape, validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """All of R^K."""
        return constraints.independent(constraints.real, len(self.event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> EqualMixture:
        """The same mixture with a larger batch shape."""
        count = self.component.batch_shape[0]
        extra = len(batch_shape) - len(self.batch_shape)
        if extra:
            raise ValueError(
                f"cannot expand batch shape {tuple(self.batch_shape)} to {tuple(batch_shape)}: the "
                "number of dimensions must stay"
            )
        component = self.component.expand(torch.Size((count, *batch_shape)))
        return EqualMixture(component, self.loc, self.scale)

    def _standard(self, value: Tensor) -> Tensor:
        """`value` in the units of the components, with room for their dimension."""
        value = (value.double() - self.loc.double()) / self.scale.double()
        rank = len(self.batch_shape) + len(self.event_shape)
        return value.unsqueeze(-rank - 1) if value.dim() >= rank else value

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`."""
        log_p = self.component.log_prob(self._standard(value).to(self.loc.dtype))
        over = -1 - len(self.batch_shape)
        volume = self.scale.expand(self.event_shape).log().sum()
        mixed: Tensor = torch.logsumexp(log_p, over) - math.log(log_p.shape[over]) - volume
        return mixed

    def cdf(self, value: Tensor) -> Tensor:
        """Joint distribution function Pr(every c_k < value_k), `sample_shape + batch_shape`."""
        log_cdf, _ = tail_log_probs(self.component, self._standard(value))
        joint = log_cdf.flatten(-len(self.event_shape)).sum(-1).exp()
        return joint.mean(-1 - len(self.batch_shape)).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """Mean cost, `batch_shape + event_shape`."""
        mean: Tensor = self.component.mean.mean(0)
        return self.loc + self.scale * mean

    @property
    def variance(self) -> Tensor:
        """Variance of every cost, `batch_shape + event_shape`."""
        within, means = self.component.variance.mean(0), self.component.mean
        return self.scale**2 * (within + means.var(0, correction=0))

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        shape = self._extended_shape(torch.Size(sample_shape))
        draws: Tensor = self.component.sample(torch.Size(sample_shape))  # [S.., N, B.., K]
        dim = len(torch.Size(sample_shape))
        count = self.component.batch_shape[0]
        batch = shape[: len(shape) - len(self.event_shape)]
        chosen = torch.randint(count, batch, device=draws.device)
        index = chosen.reshape(*batch, *(1,) * len(self.event_shape)).expand(shape).unsqueeze(dim)
        return self.loc + self.scale * draws.gather(dim, index).squeeze(dim)
