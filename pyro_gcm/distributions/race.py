"""One of several unordered classes, the winner of a race of latent costs with Gumbel noise.

The class whose revenue exceeds its cost by most, in units of that cost's scale, is y. With costs
c = loc - scale G, G standard Gumbel, that is a softmax of (h - loc) / scale, exactly (McFadden
1974), and whatever raises one class's revenue raises its probability and lowers all others.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Enumerable, EventOutcome, Expandable, real_costs
from pyro_gcm.distributions.families import base_distribution, register_cost_family
from pyro_gcm.distributions.products import aligned, on_grid, planes

#: Utilities are held within it where they are predicted, and revenues where they are scored.
_FAR, _INFINITE = 1e12, 1e30
#: Powers of 2 below that of the best class at which a class has probability 0.
_LOWEST = -1000.0
_LOG_2 = math.log(2.0)


class MinimumGumbel(Expandable):
    """The distribution of loc - scale G for a standard Gumbel G: Pr(c < v) = 1 - exp(-exp(u)).

    Here u = (v - loc) / scale. It is that of the minimum of many costs.

    :param loc: the mode, [...]; `scale`: above 0.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor, scale: Tensor, *, validate_args: bool | None = None) -> None:
        self.loc, self.scale = torch.broadcast_tensors(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MinimumGumbel:
        """The same distribution with a larger batch shape."""
        loc, scale = (value.expand(batch_shape) for value in (self.loc, self.scale))
        return MinimumGumbel(loc, scale, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density at values [...]."""
        self._check(value)
        u = (value - self.loc) / self.scale
        return u - u.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """loc less 0.577.. times scale."""
        return self.loc - 0.5772156649015329 * self.scale

    @property
    def variance(self) -> Tensor:
        """pi^2 / 6 times the square of scale."""
        return math.pi**2 / 6.0 * self.scale.square()

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Differentiable draws of shape `sample_shape + batch_shape`."""
        return self.loc - self.scale * _gumbel(self._extended_shape(sample_shape), self.loc)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        return self.rsample(sample_shape)


def _gumbel(shape: torch.Size, like: Tensor) -> Tensor:
    """Standard Gumbel draws."""
    return -torch.empty(shape, dtype=like.dtype, device=like.device).exponential_().log()


def _standard(d: Any, value: Tensor) -> Tensor:
    u: Tensor = (value.double() - d.loc.double()) / d.scale.double()
    return u.clamp(max=700.0)


def _log_cdf(d: Any, value: Tensor) -> Tensor:
    u = _standard(d, value)
    low = u < -37.0  # where exp(u) is its own distribution function, and may underflow
    return torch.where(low, u, (-torch.expm1(-u.masked_fill(low, 0.0).exp())).log())


def _quantile(d: Any, log_p: Tensor, log_q: Tensor) -> Tensor:
    low = log_p < -1.0
    hazard = torch.where(low, -torch.log1p(-log_p.clamp(max=-1.0).exp()), -log_q)
    u = torch.where(log_p < -37.0, log_p, hazard.log())
    return d.loc.double() + d.scale.double() * u


register_cost_family(
    MinimumGumbel, _log_cdf, lambda d, value: -_standard(d, value).exp(), _quantile
)


class RacedClass(Enumerable, EventOutcome):
    """One of the classes 0 .. L-1: that of the largest margin (h - c) / scale over its costs.

    :param event: `OrderEvent` of `MinimumGumbel` costs [L], or [G, L] for classes that are each the
        best of G alternatives, and a revenue tensor.
    :param predicted: the class whose probability predictions average.
    :raises TypeError: for costs of another distribution.
    """

    def __init__(
        self, event: Any, predicted: int = 0, *, validate_args: bool | None = None
    ) -> None:
        base = None if isinstance(event.cost, Tensor) else base_distribution(event.cost)
        if not isinstance(base, MinimumGumbel):
            found = type(event.cost if base is None else base).__name__
            raise TypeError(f"costs of unordered classes must be MinimumGumbel, got {found}")
        self.predicted, self.levels = predicted, event.cost_shape[-1]
        super().__init__(event, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The classes."""
        return constraints.integer_interval(0, self.levels - 1)

    def utilities(self, cost: Tensor | None = None) -> Tensor:
        """(h - loc) / scale, or the margins of known costs in the place of loc, [..., (G,) L]."""
        base: Any = self.event.base_dist
        known = base.loc if cost is None else cost
        h = self.event.revenue.double().clamp(-_INFINITE, _INFINITE)
        return (h - known.double()) / base.scale.double()

    def winner(self, cost: Tensor) -> Tensor:
        """The class of known costs, [...]."""
        margins = self.utilities(cost)
        return (margins if self.event.cost_event_dim == 1 else margins.amax(-2)).argmax(-1)

    def log_prob64(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64: minus the softplus of the log-odds of all others."""
        if self.cost is not None:
            return (self.winner(self.cost) == value).double().log()
        of_class = self.utilities()
        if self.event.cost_event_dim == 2:
            of_class = of_class.logsumexp(-2)
        shape = broadcast_shapes(value.shape, of_class.shape[:-1])
        of_class = of_class.expand(*shape, self.levels)
        at = value.expand(shape).round().long().unsqueeze(-1)
        classes = torch.arange(self.levels, device=of_class.device)
        ahead = (of_class - of_class.gather(-1, at)).masked_fill(classes == at, -math.inf)
        return torch.nn.functional.logsigmoid(-ahead.logsumexp(-1))

    def log_prob(self, value: Tensor) -> Tensor:
        """log Pr(y = value), of the broadcast shape of `value` and `batch_shape`."""
        self._check(value)
        return self._wide(self.log_prob64(value).to(self.dtype))

    def expected(self) -> Tensor:
        """The probability of the predicted class, with gradients."""
        at = torch.full((), float(self.predicted), dtype=torch.float64, device=self.device)
        return self.log_prob64(at).exp().to(self.dtype).expand(self.batch_shape)

    def prediction64(self) -> Tensor:
        """The probability of the predicted class, float64, without gradients, see below."""
        return self.probabilities64([self.predicted])[0]

    @torch.no_grad()
    def probabilities64(self, classes: list[int] | None = None) -> Tensor:
        """Pr(y = k) of classes (all by default), [L, ...], float64; they sum to 1 but for rounding.

        To the last bit Pr(k) rises with the revenue of class k, and falls with that of every other
        one: each of the sums, products and quotients below does, and exp of two utilities on a grid
        of 2^-40 does. Powers of 2 are kept apart, so that no scale depends on which class is best.
        """
        every = range(self.levels) if classes is None else classes
        if self.cost is not None:
            won = self.winner(self.cost)
            return torch.stack([(won == k).double() for k in every]).expand(-1, *self.batch_shape)
        base, shape = self.event.base_dist, self.event.cost_shape
        loc, scale = (planes(value, shape) for value in (base.loc, base.scale))
        points, loc, scale = aligned(self.event.points, loc, scale)
        u = on_grid((points - loc) / scale).clamp_(-_FAR, _FAR)
        power = (u / _LOG_2).floor_()
        mantissa = (u - power * _LOG_2).exp_()
        power = power - power.amax(0)
        bits = (power.clamp(min=_LOWEST) + 1023.0).long().bitwise_left_shift(52)
        odds = mantissa * bits.view(torch.float64).masked_fill(power < _LOWEST, 0.0)
        first, *others = odds.unflatten(0, (-1, self.levels)).unbind(0)
        for other in others:  # alternatives
            first = first + other
        found = []
        for k in every:
            ahead = torch.zeros_like(first[0])
            for other in (*first[:k], *first[k + 1 :]):
                ahead = ahead + other
            found.append(1.0 / (1.0 + ahead / first[k]))
        return torch.stack(found).expand(-1, *self.batch_shape)

    def cost_posterior(self, y: Tensor) -> RacePosterior:
        """p(c | y), exact."""
        self._check(y)
        return RacePosterior(self, y, validate_args=self._validate_args)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        shape = self._extended_shape(sample_shape)
        cost = self.event.cost.expand(shape).sample() if self.cost is None else self.cost
        return self.winner(cost).to(self.dtype).expand(shape)


class RacePosterior(Expandable):
    """p(c | which class won), sampled exactly.

    The largest margin is independent of whose it is, Gumbel at the logarithm of the sum of all
    exp(utilities); the other margins are Gumbel truncated below it (Maddison et al. 2014).

    :param outcome: `RacedClass` whose costs are integrated out.
    :param y: the class, which broadcasts against its batch shape.
    """

    support = real_costs

    def __init__(self, outcome: RacedClass, y: Tensor, *, validate_args: bool | None = None):
        self.outcome, self.y = outcome, y
        shape = broadcast_shapes(outcome.batch_shape, y.shape)
        super().__init__(shape, outcome.event.cost.event_shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of costs [..., (G,) L]; -inf where they contradict the outcome."""
        self._check(value)
        log_y = self.outcome.log_prob64(self.y)
        log_ratio = (self.outcome.winner(value) == self.y).double().log() - log_y
        log_p = self.outcome.event.cost.log_prob(value)
        return self._wide(log_p + log_ratio.to(log_p.dtype))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        event, base = self.outcome.event, self.outcome.event.base_dist
        shape = torch.Size((*sample_shape, *self.batch_shape))
        dims, whole = -event.cost_event_dim, torch.Size((*shape, *self.event_shape))
        u = self.outcome.utilities().expand(whole)
        classes = torch.arange(self.event_shape[-1], device=u.device)
        own = (classes == self.y[..., None]).expand(*shape, -1)
        own = own if dims == -1 else own.unsqueeze(-2).expand(whole)
        flat = u.flatten(dims)
        best = flat.logsumexp(-1) + _gumbel(shape, u)
        # Which alternative of the class, by another race among them alone.
        won = (flat + _gumbel(flat.shape, u)).masked_fill(~own.flatten(dims), -math.inf).argmax(-1)
        best = best[(..., *[None] * -dims)]
        margin = -torch.logaddexp(-best, -(u + _gumbel(whole, u)))
        index = torch.arange(flat.shape[-1], device=u.device)
        is_won = (index == won[..., None]).reshape(whole)
        margin = torch.where(is_won, best, margin)
        h, scale = event.revenue.double(), base.scale.double()
        cost = (h - scale * margin).to(event.dtype)
        # Rounding to the dtype may cross the best margin: the others stay behind it.
        top = self.outcome.utilities(cost).masked_fill(~is_won, -math.inf)
        top = scale * top.flatten(dims).amax(-1)[(..., *[None] * -dims)]
        least = h - top + 4.0 * torch.finfo(event.dtype).eps * (h.abs() + top.abs())
        return torch.where(is_won, cost, torch.maximum(cost, least.to(event.dtype)))
