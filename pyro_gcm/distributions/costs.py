"""Costs that may be infinite, shifted, averaged over draws of z, or in the units of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.bisection import rounded_up
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.validation import as_tensor, broadcast_shapes
from pyro_gcm.distributions.base import Expandable, real_costs
from pyro_gcm.distributions.families import (
    base_distribution,
    of_same_family,
    operand,
    parameters_of,
    tail_log_probs,
)


class InfiniteCost(Expandable):
    """A cost that is +inf with probability p0 = sigmoid(logits) and otherwise a draw of `cost`.

    It bounds the probability of an order event: Pr(c < r) < 1 - p0 for every revenue, so that a
    model trained on small revenues is not certain of y = 1 at large ones. An alternative is
    infinite as a whole, in all its K coordinates, and independently of the other alternatives;
    with several of them the bound is 1 - prod_g p0_g.

    `log_prob` is the density with respect to Lebesgue measure plus an atom at the row of infinite
    costs: log(1 - p0) + log p(c) of a finite row and log(p0) of an infinite one. A row with both
    finite and infinite costs has density 0.

    Source: paper, appendix C.

    :param cost: distribution with independent coordinates, of event shape [K] or [G, K].
    :param logits: log-odds of an infinite cost, of a shape that broadcasts against `batch_shape`
        for [K] and `batch_shape + (G,)` for [G, K]; -inf gives `cost` itself.
    :raises TypeError: for a cost whose coordinates are not independent.

    >>> import pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import InfiniteCost, OrderEvent
    >>> cost = InfiniteCost(dist.Normal(torch.zeros(2), 1.0).to_event(1), torch.tensor(0.0))
    >>> OrderEvent(cost, torch.full((2,), 100.0)).mean
    tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {"logits": constraints.real}

    def __init__(
        self, cost: TorchDistribution, logits: Tensor, *, validate_args: bool | None = None
    ) -> None:
        operand("cost", cost)
        alternatives = cost.event_shape[:-1]  # (G,), or nothing
        rows = broadcast_shapes(cost.batch_shape + alternatives, logits.shape)
        batch_shape = rows[: len(rows) - len(alternatives)]
        self.cost = cost if cost.batch_shape == batch_shape else cost.expand(batch_shape)
        self.logits = logits.expand(rows)  # [..., (G)]
        super().__init__(batch_shape, cost.event_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint | None:
        """The support of `cost`, which includes its infinite boundary."""
        return self.cost.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> InfiniteCost:
        """The same distribution with a larger batch shape."""
        cost, alternatives = self.cost.expand(torch.Size(batch_shape)), self.event_shape[:-1]
        logits = self.logits.expand(cost.batch_shape + alternatives)
        return InfiniteCost(cost, logits, validate_args=self._validate_args)

    @property
    def p0(self) -> Tensor:
        """Probability that an alternative is infinite, `batch_shape` or `batch_shape + (G,)`."""
        return torch.sigmoid(self.logits)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`."""
        self._check(value)
        finite = value.isfinite()
        # Any finite value will do instead: the density at infinity would have NaN gradients.
        density: Tensor = base_distribution(self.cost).log_prob(torch.where(finite, value, 0.5))
        log_atom = torch.where((value == math.inf).all(-1), logsigmoid(self.logits), -math.inf)
        log_p = torch.where(finite.all(-1), logsigmoid(-self.logits) + density.sum(-1), log_atom)
        return log_p.sum(-1) if len(self.event_shape) == 2 else log_p

    @property
    def mean(self) -> Tensor:
        """Infinite where p0 > 0."""
        return torch.where((self.logits > -math.inf)[..., None], math.inf, self.cost.mean)

    @property
    def variance(self) -> Tensor:
        """Infinite where p0 > 0."""
        return torch.where((self.logits > -math.inf)[..., None], math.inf, self.cost.variance)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        draw: Tensor = self.cost.sample(sample_shape)
        return draw.masked_fill(self.sample_infinite(draw.shape[:-1])[..., None], math.inf)

    @torch.no_grad()
    def sample_infinite(self, shape: torch.Size) -> Tensor:
        """Draws of whether each alternative is infinite, of shape `shape`, `[..., (G)]`."""
        uniform = torch.rand(shape, dtype=torch.float64, device=self.logits.device)
        return uniform < torch.sigmoid(self.logits.double())


def prepend_atom(
    logits: Tensor, hit: Tensor, miss: Tensor, function: Callable[[Tensor], Tensor] = logsigmoid
) -> tuple[Tensor, Tensor]:
    """The log-probabilities that coordinates hit and miss, with the atom as the first one.

    An infinite cost misses every revenue, so the atom is one more coordinate, which hits with
    probability 1 - p0.

    :param logits: log-odds of an infinite cost, [..., (G)].
    :param hit: log-probabilities of finite costs, float64, [..., (G,) K].
    :param miss: those of the complement.
    :param function: of log-odds: `torch.sigmoid` for probabilities in place of their logarithms.
    :returns: both, [..., (G,) 1 + K].
    """
    rows = broadcast_shapes(logits.shape, hit.shape[:-1])

    def with_atom(odds: Tensor, costs: Tensor) -> Tensor:
        return torch.cat([function(odds).expand(rows)[..., None], costs.expand(*rows, -1)], -1)

    return with_atom(-logits.double(), hit), with_atom(logits.double(), miss)


def finite_part(cost: Any) -> Any:
    """The distribution of a cost given that it is finite."""
    return cost.cost if isinstance(cost, InfiniteCost) else cost


def shifted(cost: Any, by: Tensor) -> Any:
    """Costs [..., (G,) K] of a location-scale family, moved by one number for each row.

    :param by: [...]; infinite costs stay infinite.
    :raises KeyError: for a family without a parameter `loc`.
    """
    if isinstance(cost, InfiniteCost):
        return InfiniteCost(shifted(cost.cost, by), cost.logits, validate_args=False)
    base = base_distribution(cost)
    parameters, events = parameters_of(base), len(cost.event_shape)
    parameters["loc"] = parameters["loc"] + by.reshape(*by.shape, *(1,) * events)
    return of_same_family(base, **parameters).to_event(events)


class LatentMixture(Expandable):
    """p(c | x) as the average of p(c | z_n) over N draws of z, in the units of loc + scale * c.

    :param component: independent costs of batch shape [N, ...] and event shape [K] or [G, K].
    :param loc: shift of the units, broadcast against the event shape.
    :param scale: factor of the units, > 0.
    :param log_weights: log-weights of the draws, normalised over dimension 0 of [N, ...]; equal
        weights by default.
    :raises ValueError: for weights that are not normalised.
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


class CostUnits:
    """The units of the data, those of the revenues, for costs that are compared with them.

    A story has its costs in standardised units, and site c of a program, or of a posterior, is in
    those of the data. Rounding does not move a cost across its revenue, either way.

    :param standardizer: of the revenues.
    :param r: revenues [B, K] in the units of the data.
    :param threshold: what costs are compared with, [B, K]: the standardised revenues.
    """

    def __init__(self, standardizer: Standardizer, r: Tensor, threshold: Tensor) -> None:
        self.standardizer, self.r, self.threshold = standardizer, r, threshold

    def to_data(self, cost: Tensor) -> Tensor:
        """Standardised costs [..., B, K] in the units of the data."""
        value = self.standardizer.inverse(cost)
        # The first number that is not below r.
        return _on_side(value, rounded_up(self.r, value.dtype), cost < self.threshold)

    def to_standard(self, cost: Tensor) -> Tensor:
        """Costs [..., B, K] in the units of the data, standardised."""
        standard = torch.where(cost.isinf(), cost.to(self.threshold), self.standardizer(cost))
        return _on_side(standard, self.threshold, cost < self.r)

    def of(self, cost: Any) -> CostsInUnits:
        """The distribution of standardised costs, with draws in the units of the data."""
        return CostsInUnits(cost, self)


class CostsInUnits(TorchDistribution):
    """Costs in the units of the data.

    :param standard: distribution of the standardised costs, of event shape [K].
    :param units: of the data.
    """

    arg_constraints: dict[str, Any] = {}
    support = real_costs

    def __init__(self, standard: Any, units: CostUnits) -> None:
        self.standard, self.units = standard, units
        self.has_rsample = standard.has_rsample
        super().__init__(standard.batch_shape, standard.event_shape, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> CostsInUnits:
        """The same distribution with a larger batch shape."""
        return CostsInUnits(self.standard.expand(torch.Size(batch_shape)), self.units)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + [K]`."""
        return self.units.to_data(self.standard.sample(torch.Size(sample_shape)))

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """The same, reparametrised."""
        return self.units.to_data(self.standard.rsample(torch.Size(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`; an atom at infinity keeps its own."""
        log_p: Tensor = self.standard.log_prob(self.units.to_standard(value))
        log_unit = self.units.standardizer.scale.log().sum().to(log_p.dtype)
        return log_p - torch.where(value.isinf().all(-1), 0.0, log_unit)


def _on_side(values: Tensor, bound: Tensor, below: Tensor) -> Tensor:
    """Values of which rounding has moved none across a bound: below it where they are to be."""
    bound = bound.detach()  # that none is moved across it does not make them depend on it
    highest = torch.nextafter(bound, bound.new_tensor(-math.inf))
    values = torch.where(below & (values >= bound), highest, values)
    return torch.where(~below & (values < bound), bound, values)
