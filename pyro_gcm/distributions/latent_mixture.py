"""A mixture over draws of a latent variable, weighted or not."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm.distributions.families import tail_log_probs
from pyro_gcm.distributions.infinite_cost import finite_part, prepend_atom


class LatentMixture(TorchDistribution):
    """p(c | x) as the average of p(c | z_n) over N draws of z, in the units of loc + scale * c.

    :param component: independent costs of batch shape [N, ...] and event shape [K] or [G, K].
    :param loc: shift of the units, broadcast against the event shape.
    :param scale: factor of the units, > 0.
    :param log_weights: of the draws, normalised over dimension 0 of [N, ...]; equal by default.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        component: TorchDistribution,
        loc: Tensor,
        scale: Tensor,
        log_weights: Tensor | None = None,
    ) -> None:
        self.component, self.loc, self.scale = component, loc, scale
        if log_weights is None:
            log_weights = loc.new_tensor(-math.log(component.batch_shape[0]), dtype=torch.float64)
        self.log_weights = log_weights.expand(component.batch_shape)
        super().__init__(component.batch_shape[1:], component.event_shape, validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """All of R^K."""
        return constraints.independent(constraints.real, len(self.event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> LatentMixture:
        """The same mixture with a larger batch shape."""
        count = self.component.batch_shape[0]
        extra = len(batch_shape) - len(self.batch_shape)
        if extra:
            raise ValueError(
                f"cannot expand batch shape {tuple(self.batch_shape)} to {tuple(batch_shape)}: the "
                "number of dimensions must stay"
            )
        component = self.component.expand(torch.Size((count, *batch_shape)))
        log_weights = self.log_weights.expand(component.batch_shape)
        return LatentMixture(component, self.loc, self.scale, log_weights)

    def _average(self, values: Tensor) -> Tensor:
        """Weighted mean of `[N, ...] + event_shape` over the draws."""
        weights = self.log_weights.exp().reshape(
            *self.log_weights.shape, *(1,) * len(self.event_shape)
        )
        # An infinite value of weight 0 does not count.
        return torch.where(weights > 0, weights * values, 0.0).sum(0).to(self.loc.dtype)

    def _standard(self, value: Tensor) -> Tensor:
        """`value` in the units of the components, with room for their dimension."""
        value = torch.as_tensor(value, device=self.loc.device)
        value = (value.double() - self.loc.double()) / self.scale.double()
        rank = len(self.batch_shape) + len(self.event_shape)
        return value.unsqueeze(-rank - 1) if value.dim() >= rank else value

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of a tensor or array, of shape `sample_shape + batch_shape`."""
        value = torch.as_tensor(value, device=self.loc.device)
        log_p = self.component.log_prob(self._standard(value).to(self.loc.dtype))
        over = -1 - len(self.batch_shape)
        # An infinite cost is an atom, whose probability has no units.
        volume = torch.where(value.isinf(), 0.0, self.scale.expand(self.event_shape).log())
        volume = volume.flatten(-len(self.event_shape)).sum(-1)
        mixed: Tensor = torch.logsumexp(log_p.double() + self.log_weights, over) - volume
        return mixed.to(self.loc.dtype)

    def cdf(self, value: Tensor) -> Tensor:
        """Joint distribution function Pr(every c_k < value_k), `sample_shape + batch_shape`."""
        tails = tail_log_probs(finite_part(self.component), self._standard(value))
        log_cdf, _ = prepend_atom(self.component, *tails)
        joint = log_cdf.flatten(-len(self.event_shape)).sum(-1).exp()
        over = -1 - len(self.batch_shape)
        return (joint * self.log_weights.exp()).sum(over).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """Mean cost, `batch_shape + event_shape`."""
        return self.loc + self.scale * self._average(self.component.mean)

    @property
    def variance(self) -> Tensor:
        """Variance of every cost, `batch_shape + event_shape`."""
        means = self.component.mean
        # Infinite means have no variance between them.
        apart = torch.where(means.isinf(), 0.0, means - self._average(means)).square()
        return self.scale**2 * self._average(self.component.variance + apart)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        shape = self._extended_shape(torch.Size(sample_shape))
        draws: Tensor = self.component.sample(torch.Size(sample_shape))  # [S.., N, B.., K]
        dim = len(torch.Size(sample_shape))
        batch = shape[: len(shape) - len(self.event_shape)]
        last = self.log_weights.movedim(0, -1).expand(*batch, -1)  # [S.., B.., N]
        chosen = torch.distributions.Categorical(logits=last).sample()
        index = chosen.reshape(*batch, *(1,) * len(self.event_shape)).expand(shape).unsqueeze(dim)
        return self.loc + self.scale * draws.gather(dim, index).squeeze(dim)
