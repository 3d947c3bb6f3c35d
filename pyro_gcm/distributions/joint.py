"""Distributions made of others: averages over draws of z, outcomes side by side, linear maps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.validation import as_tensor, broadcast_shapes
from pyro_gcm.distributions.base import EventOutcome, Expandable, real_costs
from pyro_gcm.distributions.costs import InfiniteCost, finite_part, prepend_atom
from pyro_gcm.distributions.families import (
    base_distribution,
    of_same_family,
    parameters_of,
    tail_log_probs,
)
from pyro_gcm.distributions.order_event import OrderEvent

#: An order event of some of the costs to the distribution of an outcome.
Outcome = Callable[[OrderEvent], Any]


class LatentMixture(Expandable):
    """p(c | x) as the average of p(c | z_n) over N draws of z, in the units of loc + scale * c.

    :param component: independent costs of batch shape [N, ...] and event shape [K] or [G, K].
    :param loc: shift of the units, broadcast against the event shape.
    :param scale: factor of the units, > 0.
    :param log_weights: log-weights of the draws, normalised over dimension 0 of [N, ...]; equal
        weights by default.
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
        self.component, self.loc, self.scale = component, loc, scale
        if log_weights is None:
            log_weights = loc.new_tensor(-math.log(component.batch_shape[0]), dtype=torch.float64)
        self.log_weights = log_weights.expand(component.batch_shape)
        # Expansion can put dimensions in front of the draws' own batch shape, [..., N, own].
        self._own_dims = len(component.batch_shape) - 1
        batch_shape = component.batch_shape[1:]
        super().__init__(batch_shape, component.event_shape, validate_args=validate_args)

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


def costs_between(cost: Any, start: int, stop: int) -> Any:
    """The costs start .. stop - 1 of every alternative: of a tensor, or of a distribution."""
    if isinstance(cost, Tensor):
        return cost[..., start:stop]
    base = base_distribution(cost)
    parts = {name: value[..., start:stop] for name, value in parameters_of(base).items()}
    return of_same_family(base, **parts).to_event(len(cost.event_shape))


def event_between(event: OrderEvent, start: int, stop: int) -> OrderEvent:
    """The order event of some of the costs."""
    cost = costs_between(event.cost, start, stop)
    part = event.replaced(cost, event.revenue[..., start:stop])
    return part.expand(broadcast_shapes(part.batch_shape, event.batch_shape))


def split_columns(value: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """The columns [..., D] of each of several outcomes, [...] where it has one."""
    return [own[..., 0] if own.shape[-1] == 1 else own for own in value.split(list(widths), -1)]


class SeveralOutcomes(EventOutcome):
    """Outcomes side by side, independent given the latent variable.

    :param event: `OrderEvent` of all costs and all revenues.
    :param outcomes: what each of them makes of the event of its own costs.
    :param costs: number of costs of each, in order; they are the last dimension of the event.
    :param widths: number of columns of each, in order; a value has all of them, [..., D].
    """

    support = constraints.real_vector
    has_rows = False
    parts: list[Any]

    def __init__(
        self,
        event: OrderEvent,
        outcomes: Sequence[Outcome],
        costs: Sequence[int],
        widths: Sequence[int],
    ) -> None:
        self.outcomes, self.costs, self.widths = outcomes, tuple(costs), tuple(widths)
        super().__init__(event, (sum(widths),), validate_args=False)

    def _depend_on(self, event: OrderEvent, cost: Tensor | None) -> torch.Size:
        ends = list(itertools.accumulate(self.costs, initial=0))
        self.parts = []
        for outcome, (start, stop) in zip(self.outcomes, itertools.pairwise(ends), strict=True):
            part = outcome(event_between(event, start, stop))
            self.parts.append(part if cost is None else part.given_cost(cost[..., start:stop]))
        own = super()._depend_on(event, cost)
        return broadcast_shapes(own, *(part.batch_shape for part in self.parts))

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of the log-probabilities or -densities of the outcomes, [...]."""
        pairs = zip(self.parts, split_columns(value, self.widths), strict=True)
        return self._wide(sum(part.log_prob(y) for part, y in pairs))

    def cost_posterior(self, y: Tensor) -> SideBySide:
        """p(c | y): the costs of each outcome given that outcome."""
        pairs = zip(self.parts, split_columns(y, self.widths), strict=True)
        return SideBySide([part.cost_posterior(column) for part, column in pairs])

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + (D,)`."""
        draws, lead = [], sample_shape + self.batch_shape
        for part, width in zip(self.parts, self.widths, strict=True):
            draw = part.expand(self.batch_shape).sample(sample_shape).double()
            draws.append(draw.reshape(*lead, width))
        return torch.cat(draws, -1)


class SideBySide(Expandable):
    """Independent distributions of costs, side by side in the last dimension.

    :param parts: of event shapes [K_j] or [G, K_j].
    """

    support = real_costs

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts, self._sizes = parts, [part.event_shape[-1] for part in parts]
        shape = broadcast_shapes(*(part.batch_shape for part in parts))
        event_shape = torch.Size((*parts[0].event_shape[:-1], sum(self._sizes)))
        super().__init__(shape, event_shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of the log-densities, [...]."""
        pairs = zip(self.parts, value.split(self._sizes, -1), strict=True)
        return self._wide(sum(part.log_prob(own) for part, own in pairs))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        parts = [part.expand(self.batch_shape) for part in self.parts]
        return torch.cat([part.sample(sample_shape) for part in parts], -1)


def linear_gaussian_posterior(prior: Any, loading: Tensor, noise: Any, value: Tensor) -> Any:
    """p(k | r) for r = W k + dr, k ~ prior and dr ~ noise, normal with independent coordinates.

    With W of shape [m, K] the posterior precision is S_k^-1 + W' S_r^-1 W. It is correlated even
    if prior and noise are not, so the result is a `MultivariateNormal`, except for K = 1.

    :param prior: normal of batch shape [...] and event shape [K].
    :param loading: W, [m, K].
    :param noise: normal of batch shape [...] and event shape [m].
    :param value: r, [..., m].
    """
    k, dr = coordinates(prior), coordinates(noise)
    precision_k, precision_r = k.scale**-2, dr.scale**-2
    weighted = loading.mT * precision_r.unsqueeze(-2)  # W' S_r^-1, [..., K, m]
    shift = (weighted @ (value - dr.loc).unsqueeze(-1)).squeeze(-1) + precision_k * k.loc
    precision = weighted @ loading + torch.diag_embed(precision_k)
    if loading.shape[-1] == 1:
        variance = 1.0 / precision.squeeze(-1)
        return dist.Normal(variance * shift, variance.sqrt()).to_event(1)
    factor = torch.linalg.cholesky(precision)
    loc = torch.cholesky_solve(shift.unsqueeze(-1), factor).squeeze(-1)
    covariance = torch.cholesky_inverse(factor)
    return dist.MultivariateNormal(loc, scale_tril=torch.linalg.cholesky(covariance))


def is_independent_normal(distribution: Any) -> bool:
    """Whether a distribution is normal with independent coordinates."""
    return isinstance(coordinates(distribution), torch.distributions.Normal)


def coordinates(distribution: Any) -> Any:
    """The distribution under `.to_event`."""
    while isinstance(distribution, torch.distributions.Independent):
        distribution = distribution.base_dist
    return distribution
