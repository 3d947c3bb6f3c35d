"""A mixture over draws of a latent variable, weighted or not."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.validation import as_tensor
from pyro_gcm.distributions.base import Expandable, distributions, real_costs, tensors
from pyro_gcm.distributions.event_sides import InfiniteCost, finite_part, prepend_atom
from pyro_gcm.distributions.families import tail_log_probs


class LatentMixture(Expandable):
    """p(c | x) as the average of p(c | z_n) over N draws of z, in the units of loc + scale * c.

    :param component: independent costs of batch shape [N, ...] and event shape [K] or [G, K].
    :param loc: shift of the units, broadcast against the event shape.
    :param scale: factor of the units, > 0.
    :param log_weights: log-weights of the draws, normalised over dimension 0 of [N, ...]; equal
        weights by default.
    :raises ValueError: for a component without draws or of another event shape, and for weights
        that are not normalised.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = real_costs

    def __init__(
        self,
        component: TorchDistribution,
        loc: Tensor,
        scale: Tensor,
        log_weights: Tensor | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        distributions(component=component)
        tensors(loc=loc, scale=scale)
        if not component.batch_shape or len(component.event_shape) not in (1, 2):
            raise ValueError(
                "component must have batch shape [N, ...] and event shape [K] or [G, K], got "
                f"{tuple(component.batch_shape)} and {tuple(component.event_shape)}"
            )
        self.component, self.loc, self.scale = component, loc, scale
        if log_weights is None:
            log_weights = loc.new_tensor(-math.log(component.batch_shape[0]), dtype=torch.float64)
        self.log_weights = log_weights.expand(component.batch_shape)
        # Expansion can put dimensions in front of the draws' own batch shape, [..., N, own].
        self._own_dims = len(component.batch_shape) - 1
        batch_shape = component.batch_shape[1:]
        super().__init__(batch_shape, component.event_shape, validate_args=validate_args)
        if self._validate_args and not (self.log_weights.logsumexp(0).abs() < 1e-3).all():
            raise ValueError("log_weights must be normalised over dimension 0")

    def _average(self, values: Tensor) -> Tensor:
        """Weighted mean of `[N, ...] + event_shape` over the draws."""
        weights = self.log_weights.exp()[(..., *[None] * len(self.event_shape))]
        # An infinite value of weight 0 does not count.
        return torch.where(weights > 0, weights * values, 0.0).sum(0).to(self.loc.dtype)

    def _standard(self, value: Tensor) -> Tensor:
        """`value` in the units of the components, with a dimension for the draws."""
        # An infinite cost has no units; divided, it would have a NaN in the gradient by them.
        loc, infinite = self.loc.double(), value.isinf()
        standard = (torch.where(infinite, loc, value.double()) - loc) / self.scale.double()
        value = torch.where(infinite, value.double(), standard)
        dims = self._own_dims + len(self.event_shape)
        return value.unsqueeze(-dims - 1) if value.dim() >= dims else value

    def _checked(self, value: Any) -> Tensor:
        if not isinstance(value, Tensor):
            value = as_tensor("value", value)
        tensors(value=value)
        value = value.to(self.loc.device)
        self._check(value)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of a tensor or an array, of shape `sample_shape + batch_shape`."""
        value = self._checked(value)
        log_p = self.component.log_prob(self._standard(value).to(self.loc.dtype))
        # An infinite cost is an atom, whose probability has no units.
        volume = torch.where(value.isinf(), 0.0, self.scale.expand(self.event_shape).log())
        volume = volume.flatten(-len(self.event_shape)).sum(-1)
        mixed = torch.logsumexp(log_p.double() + self.log_weights, -1 - self._own_dims)
        return self._wide((mixed - volume).to(self.loc.dtype))

    def cdf(self, value: Tensor) -> Tensor:
        """Joint distribution function Pr(every c_k < value_k), `sample_shape + batch_shape`."""
        tails = tail_log_probs(finite_part(self.component), self._standard(self._checked(value)))
        if isinstance(self.component, InfiniteCost):
            tails = prepend_atom(self.component.logits, *tails)
        joint = tails[0].flatten(-len(self.event_shape)).sum(-1).exp()
        mixed = (joint * self.log_weights.exp()).sum(-1 - self._own_dims)
        return self._wide(mixed.to(self.loc.dtype))

    @property
    def mean(self) -> Tensor:
        """Mean cost, `batch_shape + event_shape`."""
        mean = self.loc + self.scale * self._average(self.component.mean)
        return mean.expand(self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Tensor:
        """Variance of every cost, `batch_shape + event_shape`."""
        means = self.component.mean
        # Infinite means have no variance between them.
        apart = torch.where(means.isinf(), 0.0, means - self._average(means)).square()
        variance = self.scale**2 * self._average(self.component.variance + apart)
        return variance.expand(self.batch_shape + self.event_shape)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        shape = self._extended_shape(sample_shape)
        batch = shape[: len(shape) - len(self.event_shape)]
        rows = batch[: len(batch) - self._own_dims]  # sample shape and new dimensions
        own = batch[len(rows) :]
        component = self.component.expand(self.component.batch_shape[:1] + own)
        draws: Tensor = component.sample(rows)  # [rows, N, own, (G,) K]
        last = self.log_weights.movedim(0, -1).expand(*batch, -1)  # [rows, own, N]
        chosen = torch.distributions.Categorical(logits=last).sample()
        index = chosen.reshape(*batch, *(1,) * len(self.event_shape)).expand(shape)
        picked = draws.gather(len(rows), index.unsqueeze(len(rows))).squeeze(len(rows))
        return self.loc + self.scale * picked
