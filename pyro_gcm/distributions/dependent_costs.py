"""Costs that go together: independent only given one more latent variable, which is a site too."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pyro.distributions import Categorical, Normal, TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.distributions.base import Expandable, distributions, tensors
from pyro_gcm.distributions.event_sides import InfiniteCost
from pyro_gcm.distributions.families import (
    CostFamily,
    add_cost_family,
    base_distribution,
    cost_family,
    of_same_family,
    parameters_of,
    tail_log_probs,
)
from pyro_gcm.distributions.numerics import normal_log_tails, probit

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_HERMITE = _NODES, _WEIGHTS / _WEIGHTS.sum()


class DependentCosts(Expandable):
    """Base of costs [..., (G,) K] that are independent given a latent variable of the row.

    As the distribution of site c of a story they bring a site for that variable, `c_factor` or
    `c_mode`, which is drawn or summed out as any latent site is. So costs have an exact posterior,
    and predictions rise with every revenue, as those of independent costs do.
    """

    #: What follows the name of the costs in that of the latent site.
    latent_name: str

    @property
    def latent(self) -> TorchDistribution:
        """The distribution of the latent variable, of event shape ()."""
        raise NotImplementedError

    def given(self, value: Tensor) -> Any:
        """The costs given the latent variable, with independent coordinates."""
        raise NotImplementedError

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Real numbers, or what the family has."""
        return constraints.independent(self._base.support, len(self.event_shape))

    @property
    def _base(self) -> Any:
        raise NotImplementedError

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        latent = self.latent.expand(self.batch_shape).sample(sample_shape)
        return self.given(latent).sample()


class CommonFactor(DependentCosts):
    """Costs with one common factor f ~ N(0, 1): a Gaussian copula with one factor.

    Each cost has the distribution that `cost` says, and given f it is F^-1(Phi(a f + s e)) with
    s^2 = 1 - a^2 and independent e ~ N(0, 1). The normal scores of two costs have the correlation
    a_j a_k. For normal costs that is a multivariate normal distribution.

    Source: Joe (2014), Dependence Modeling with Copulas, section 3.10.

    :param cost: distribution with independent coordinates of a registered family, of event shape
        [K] or [G, K].
    :param loading: a, strictly between -1 and 1, broadcast against `cost`.
    :raises ValueError: for costs whose coordinates are not independent, and for another loading.

    >>> import pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import CommonFactor
    >>> cost = dist.Normal(torch.zeros(2), 1.0).to_event(1)
    >>> CommonFactor(cost, torch.tensor([0.6, 0.8])).log_prob(torch.zeros(2))
    tensor(-1.7069)
    """

    arg_constraints = {"loading": constraints.interval(-1.0, 1.0)}
    latent_name = "factor"

    def __init__(
        self, cost: TorchDistribution, loading: Tensor, *, validate_args: bool | None = None
    ) -> None:
        distributions(cost=cost)
        tensors(loading=loading)
        cost_family(type(base_distribution(cost)))
        event = cost.event_shape
        shape = broadcast_shapes(cost.shape(), loading.shape)
        self.cost, self.loading = cost, loading
        super().__init__(shape[: len(shape) - len(event)], event, validate_args=validate_args)
        if self._validate_args and (loading.abs() == 1.0).any():
            raise ValueError("loading must lie strictly between -1 and 1, got 1 or -1")

    @property
    def _base(self) -> Any:
        return base_distribution(self.cost)

    @property
    def latent(self) -> TorchDistribution:
        """N(0, 1) of every row."""
        zero = self.loading.new_zeros(self.batch_shape[-1:])
        return Normal(zero, 1.0, validate_args=False)

    def given(self, value: Tensor) -> Any:
        """The costs given the factor."""
        base, events = self._base, len(self.event_shape)
        shift = self.loading * value.reshape(*value.shape, *(1,) * events)
        spread = (1.0 - self.loading.square()).sqrt()
        if type(base) is Normal:
            loc, scale = base.loc + base.scale * shift, base.scale * spread
            return Normal(loc, scale, validate_args=False).to_event(events)
        return GivenFactor(base, shift, spread, validate_args=False).to_event(events)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`."""
        self._check(value)
        score = probit(*tail_log_probs(self.cost, value))
        a = self.loading.double().expand(broadcast_shapes(self.loading.shape, self.event_shape))
        free = 1.0 - a.square()

        def total(terms: Tensor) -> Tensor:
            return terms.flatten(-len(self.event_shape)).sum(-1)

        # Sherman & Morrison: the inverse and the determinant of diag(1 - a^2) + a a'.
        whole = 1.0 + total(a.square() / free)
        common = total(a * score / free).square() / whole
        copula = total(score.square() - score.square() / free - free.log()) + common - whole.log()
        density: Tensor = self._base.log_prob(value)
        return self._wide((total(density.double()) + 0.5 * copula).to(density.dtype))


class GivenFactor(Expandable):
    """A univariate cost F^-1(Phi(shift + spread e)), e ~ N(0, 1), of a `CommonFactor`.

    :param base: the distribution of which F is the distribution function.
    :param shift: a f; `spread`: the square root of 1 - a^2.
    """

    arg_constraints = {"shift": constraints.real, "spread": constraints.positive}

    def __init__(
        self, base: Any, shift: Tensor, spread: Tensor, *, validate_args: bool | None = None
    ) -> None:
        self.base, self.shift, self.spread = base, shift, spread
        shape = broadcast_shapes(base.batch_shape, shift.shape, spread.shape)
        super().__init__(shape, torch.Size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """That of the family."""
        return self.base.support

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density."""
        score = probit(*tail_log_probs(self.base, value))
        free = (score - self.shift) / self.spread
        density: Tensor = self.base.log_prob(value)
        copula = 0.5 * (score.square() - free.square()) - self.spread.log()
        return self._wide(density + copula.to(density.dtype))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape`."""
        free = torch.randn(self._extended_shape(sample_shape), dtype=torch.float64)
        return self.at(free.to(self.shift.device)).to(self.shift.dtype)

    @property
    def mean(self) -> Tensor:
        """The mean, by Gauss-Hermite quadrature."""
        return self._moment(1)

    @property
    def variance(self) -> Tensor:
        """The variance, likewise."""
        return self._moment(2) - self._moment(1).square()

    def _moment(self, power: int) -> Tensor:
        like: Any = {"dtype": torch.float64, "device": self.shift.device}
        shape = -1, *(1,) * len(self.batch_shape)
        free, weight = (torch.tensor(v, **like).reshape(shape) for v in _HERMITE)
        return self._wide((weight * self.at(free).pow(power)).sum(0).to(self.shift.dtype))

    def at(self, free: Tensor) -> Tensor:
        """The cost where e is `free`, float64."""
        score = self.shift + self.spread * free
        zero, one = torch.zeros_like(score), torch.ones_like(score)
        log_p, log_q = normal_log_tails(score, zero, one)
        return cost_family(type(self.base)).quantile(self.base, log_p, log_q)


def _tails(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    score = probit(*tail_log_probs(d.base, value))
    return normal_log_tails(score, d.shift.double(), d.spread.double())


add_cost_family(GivenFactor, CostFamily(_tails, lambda d, log_p, log_q: d.at(probit(log_p, log_q))))


class CostMixture(DependentCosts):
    """A mixture of J modes, in each of which costs are independent: cheap and dear auctions.

    :param logits: of the modes, [..., J].
    :param components: independent costs of a registered family, of event shape [J, K] or [J, G, K].
    :raises ValueError: for another number of modes, and for a family that is not determined by its
        parameters alone.

    >>> import pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import CostMixture
    >>> modes = dist.Normal(torch.tensor([[-2.0], [2.0]]), 0.5).to_event(2)
    >>> CostMixture(torch.zeros(2), modes).log_prob(torch.tensor([2.0]))
    tensor(-0.9189)
    """

    arg_constraints = {"logits": constraints.real_vector}
    latent_name = "mode"

    def __init__(
        self, logits: Tensor, components: TorchDistribution, *, validate_args: bool | None = None
    ) -> None:
        distributions(components=components)
        tensors(logits=logits)
        event = components.event_shape
        if len(event) not in (2, 3) or logits.shape[-1:] != event[:1]:
            raise ValueError(
                "components must have event shape [J, K] or [J, G, K] for logits [..., J], got "
                f"{tuple(event)} and logits {tuple(logits.shape)}"
            )
        if not parameters_of(base_distribution(components)):
            raise ValueError(
                f"components must be of a family that its parameters determine, got "
                f"{type(base_distribution(components)).__name__}"
            )
        self.logits, self.components = logits, components
        batch_shape = broadcast_shapes(components.batch_shape, logits.shape[:-1])
        super().__init__(batch_shape, event[1:], validate_args=validate_args)

    @property
    def _base(self) -> Any:
        return base_distribution(self.components)

    @property
    def latent(self) -> TorchDistribution:
        """Which mode a row is in."""
        return Categorical(logits=self.logits, validate_args=False)

    def given(self, value: Tensor) -> Any:
        """The costs of a mode, an integer."""
        event, base = self.event_shape, self._base
        batch = broadcast_shapes(value.shape, self.batch_shape)
        index = value.long().expand(batch).reshape(*batch, 1, *(1,) * len(event))
        index = index.expand(*batch, 1, *event)
        mode = -1 - len(event)

        def chosen(parameter: Tensor) -> Tensor:
            return parameter.expand(*batch, *self.components.event_shape).gather(mode, index)

        parts = {name: chosen(v).squeeze(mode) for name, v in parameters_of(base).items()}
        return of_same_family(base, **parts).to_event(len(event))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`."""
        self._check(value)
        events = len(self.event_shape)
        each: Tensor = self._base.log_prob(value.unsqueeze(-1 - events)).flatten(-events).sum(-1)
        return self._wide((self.logits.log_softmax(-1) + each).logsumexp(-1))


def independent_costs(cost: Any) -> Any:
    """Costs with independent coordinates: given 0, say, of what they depend on."""
    if not isinstance(cost, DependentCosts):
        return cost
    return cost.given(torch.zeros(cost.batch_shape))


def shifted(cost: Any, by: Tensor) -> Any:
    """Costs [..., (G,) K] of a location-scale family, moved by one number for each row.

    :param by: [...]; infinite costs stay infinite, and dependent ones keep their dependence.
    :raises TypeError: for costs that are no distribution, or a shift that is no tensor.
    :raises ValueError: for a family without a parameter `loc`.
    """
    distributions(cost=cost)
    tensors(by=by)
    if isinstance(cost, InfiniteCost):
        return InfiniteCost(shifted(cost.cost, by), cost.logits, validate_args=False)
    if isinstance(cost, CommonFactor):
        return CommonFactor(shifted(cost.cost, by), cost.loading, validate_args=False)
    if isinstance(cost, CostMixture):
        return CostMixture(cost.logits, shifted(cost.components, by), validate_args=False)
    base = base_distribution(cost)
    parameters = parameters_of(base)
    if "loc" not in parameters:
        raise ValueError(f"cost must have a parameter 'loc' to shift, got {type(base).__name__}")
    events = len(cost.event_shape)
    parameters["loc"] = parameters["loc"] + by.reshape(*by.shape, *(1,) * events)
    return of_same_family(base, **parameters).to_event(events)
