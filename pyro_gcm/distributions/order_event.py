"""The order event y = 1{c < r} as a distribution on {0, 1}."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from pyro.distributions.util import broadcast_shape
from torch import Tensor

from pyro_gcm.distributions.cost_posterior import CostPosterior
from pyro_gcm.distributions.event_log_form import event_log_probs
from pyro_gcm.distributions.event_planes import planes_of
from pyro_gcm.distributions.event_probability import (
    NORMAL,
    SMALLEST_PRODUCT,
    StandardTails,
    event_probabilities,
    mean_probability,
)
from pyro_gcm.distributions.event_sides import gaussian_difference, side
from pyro_gcm.distributions.families import cost_family, tail_log_probs
from pyro_gcm.distributions.infinite_cost import InfiniteCost
from pyro_gcm.distributions.numerics import probit
from pyro_gcm.distributions.revenue_posterior import RevenuePosterior


class OrderEvent(TorchDistribution):
    """Whether a revenue vector exceeds a cost vector in the product order.

    With costs `c` of event shape `[K]` the outcome is `y = 1` if `c_k < r_k` for every k, and with
    costs of event shape `[G, K]` (alternatives) if that holds for at least one of the G rows::

        c ~ Normal(loc, scale).to_event(1)            # [B], event [K]
        y ~ OrderEvent(c, r)                          # the event itself
        y ~ OrderEvent(Normal(loc, scale).to_event(1), r)     # its probability, c integrated out

    `cost` and `revenue` are each a tensor or a distribution with independent coordinates. If both
    are tensors the outcome is certain. If one is a distribution of a registered cost family, the
    probability has a closed form. Two distributions are possible in one case: the Gaussian costs
    of one alternative and a Gaussian revenue, whose difference is Gaussian again. An infinite
    revenue is allowed and gets gradient 0. An `InfiniteCost` bounds Pr(y = 1) away from 1 for
    every revenue. Log-probabilities keep full relative precision in both tails; they are computed
    in float64 and returned in the dtype of the arguments.

    Source: paper, equation (py_on_zr) in appendix D.2, for one alternative; the minimum inside a
    maximum of Sill (1997) for several.

    :param cost: tensor `[..., K]` or `[..., G, K]`, or a distribution with that event shape.
    :param revenue: tensor or distribution that broadcasts against it.
    :param cost_event_dim: 1 for `[K]`, 2 for `[G, K]`. A distribution determines it; for two
        tensors it is 1 by default.
    :raises ValueError: for a distribution whose coordinates are not independent, and for a random
        revenue without a closed form.
    :raises TypeError: for a cost family that is not registered.
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        cost: Tensor | TorchDistribution,
        revenue: Tensor | TorchDistribution,
        *,
        cost_event_dim: int | None = None,
        validate_args: bool | None = None,
    ) -> None:
        c = side("cost", cost.cost if isinstance(cost, InfiniteCost) else cost)
        r = side("revenue", revenue)
        event_dim = cost_event_dim or max(c.event_dim, r.event_dim) or 1
        for name, found in (("cost", c.event_dim), ("revenue", r.event_dim)):
            if found not in (0, event_dim):
                raise ValueError(f"{name} has event_dim {found}, expected {event_dim}")
        if event_dim == 2 and r.base_dist is not None:
            raise ValueError(
                "revenue is a distribution, but alternatives share their revenue, so that the "
                "events are not independent: sample the revenue and pass the draws"
            )
        shape = broadcast_shape(c.shape, r.shape)
        if len(shape) < event_dim:
            raise ValueError(
                f"cost and revenue need at least {event_dim} dimensions, got shapes "
                f"{tuple(c.shape)} and {tuple(r.shape)}"
            )
        self.cost, self.revenue, self.cost_event_dim = cost, revenue, event_dim
        # A coordinate is random through `base_dist`, and the event asks on which side of `point`
        # it lies: c against r, r against c, or c - r against 0.
        if c.base_dist is None:
            self.base_dist, self.point = r.base_dist, c.like
        elif r.base_dist is None:
            self.base_dist, self.point = c.base_dist, r.like
        else:
            self.base_dist = gaussian_difference(c.base_dist, r.base_dist)
            self.point = torch.zeros_like(self.base_dist.loc)
        dtype = torch.promote_types(c.like.dtype, r.like.dtype)
        self.dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        self.device = c.like.device
        self._logits = cost.logits if isinstance(cost, InfiniteCost) else None
        batch_shape = torch.Size(shape[: len(shape) - event_dim])
        self._cost_shape = torch.Size(shape[len(shape) - event_dim :])
        super().__init__(batch_shape, torch.Size(), validate_args=validate_args)
        if self._validate_args and isinstance(revenue, Tensor) and revenue.isnan().any():
            raise ValueError("revenue contains NaN")

    @staticmethod
    def infer_shapes(  # type: ignore[override]
        cost: Any, revenue: Any = (), cost_event_dim: int = 1
    ) -> tuple[torch.Size, torch.Size]:
        """Batch shape and event shape from the shapes of the arguments.

        The shape of a distribution is that of its draws.
        """
        shape = broadcast_shape(cost, revenue)
        return torch.Size(shape[: len(shape) - cost_event_dim]), torch.Size()

    def expand(self, batch_shape: Any, _instance: Any = None) -> OrderEvent:
        """The same event with a larger batch shape; nothing is copied.

        :raises ValueError: if the batch shape does not broadcast to the new one.
        """
        new = copy.copy(self)
        new._batch_shape = torch.Size(batch_shape)
        if broadcast_shape(self.batch_shape, new._batch_shape) != new._batch_shape:
            raise ValueError(
                f"batch_shape must be one to which {tuple(self.batch_shape)} broadcasts, got "
                f"{tuple(batch_shape)}"
            )
        return new

    def given_cost(self, cost: Tensor) -> OrderEvent:
        """The event itself, for a draw of the costs."""
        return self._replaced(cost, self.revenue)

    def given_revenue(self, revenue: Tensor) -> OrderEvent:
        """The event for a draw of a random revenue."""
        return self._replaced(self.cost, revenue)

    def marginalize(
        self, cost: TorchDistribution, revenue: TorchDistribution | None = None
    ) -> OrderEvent:
        """The event with its costs integrated out.

        :param cost: the distribution of the costs.
        :param revenue: the distribution of the revenue, if it is integrated out as well.
        """
        return self._replaced(cost, self.revenue if revenue is None else revenue)

    def _replaced(self, cost: Any, revenue: Any) -> OrderEvent:
        """The event of these arguments; the values of tensors are not checked again."""
        new = OrderEvent(cost, revenue, cost_event_dim=self.cost_event_dim, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def difference(self) -> OrderEvent:
        """The same event as c - r < 0, for a random revenue; infinite costs stay infinite."""
        difference: Any = self.base_dist.to_event(1)
        if isinstance(self.cost, InfiniteCost):
            difference = InfiniteCost(difference, self.cost.logits)
        return OrderEvent(difference, self.point)

    def log_probs(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1), each of shape `batch_shape`."""
        log_zero, log_one = self.log_probs64()
        return log_zero.to(self.dtype), log_one.to(self.dtype)

    def log_probs64(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, each of shape `batch_shape`."""
        outcomes = torch.arange(2.0, device=self.device).reshape(2, *(1 for _ in self.batch_shape))
        log_zero, log_one = self._log_prob64(outcomes)
        return log_zero, log_one

    def _log_prob64(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64.

        The logarithm of a probability up to 1/2, log1p of its complement above; in log form where
        the product form would lose digits.
        """
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return torch.where(value > 0.5, log_one, log_zero)
        zero, one = self.probabilities64()
        p, q = torch.where(value > 0.5, one, zero), torch.where(value > 0.5, zero, one)
        # Clamped, a branch that is not taken has a gradient of 0, as have elements to be replaced.
        from_p = p.clamp_min(SMALLEST_PRODUCT).log()
        log_p = torch.where(p <= q, from_p, torch.log1p(-q.clamp_max(0.5)))
        rare = p < SMALLEST_PRODUCT
        if not rare.is_meta and rare.any():
            log_zero, log_one = self._log_form(rare)
            happened = (value > 0.5).expand(rare.shape)[rare]
            log_p = log_p.masked_scatter(rare, torch.where(happened, log_one, log_zero))
        return log_p

    def probabilities64(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1) in float64, each of shape `batch_shape`.

        Both are right to a few ulp, relative, above 1e-260, and 0 with a gradient of 0 where they
        underflow; see `event_probabilities`. A registered family has exp of `log_probs64`.
        """
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return log_zero.exp(), log_one.exp()
        zero, one = event_probabilities(*self._product_form())
        return zero.expand(self.batch_shape), one.expand(self.batch_shape)

    def probit64(self) -> Tensor:
        """Phi^-1(Pr(y = 1)) in float64, of shape `batch_shape`.

        For one Gaussian cost it is (r - c's mean) / scale itself.
        """
        base = self.base_dist
        one_gaussian = self._standard is NORMAL and self._cost_shape == (1,)
        if one_gaussian and self._logits is None and not isinstance(self.cost, Tensor):
            # An infinite revenue stays as it is, with a gradient of 0.
            point, infinite = self.point.double(), self.point.isinf()
            u = (point.masked_fill(infinite, 0.0) - base.loc.double()) / base.scale.double()
            u = torch.where(infinite, point.detach(), u)
            return u.squeeze(-1).expand(self.batch_shape)
        if self._standard is None:
            return probit(*reversed(self._log_form()))
        zero, one = self.probabilities64()
        smaller = torch.where(one < zero, one, zero)
        x = torch.special.ndtri(smaller.clamp_min(SMALLEST_PRODUCT))
        x = torch.where(one < zero, x, -x)
        rare = smaller < SMALLEST_PRODUCT
        if not rare.is_meta and rare.any():
            x = x.masked_scatter(rare, probit(*reversed(self._log_form(rare))))
        return x

    def log_mean_prob(self, value: Tensor) -> Tensor:
        """log of the mean of Pr(y = value) over the leftmost dimension, the draws, in float64.

        One logarithm a row. A draw whose probability underflows counts for nothing beside the
        others; a row of which all do is computed in log form.

        :param value: outcomes, of shape `batch_shape[1:]`.
        """
        draws = self.batch_shape[0]
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return torch.where(value > 0.5, log_one, log_zero).logsumexp(0) - math.log(draws)
        standard, point, loc, *others = self._product_form()
        loc = loc.expand(self.batch_shape + self._cost_shape)  # the draws are a dimension of it
        mean = mean_probability(value > 0.5, standard, point, loc, *others)
        rare = mean < SMALLEST_PRODUCT
        # A gradient of 0 for the rows that are replaced.
        log_mean = mean.clamp_min(SMALLEST_PRODUCT).log()
        if not rare.is_meta and rare.any():
            log_zero, log_one = self._log_form(rare.expand(self.batch_shape))
            zero, one = log_zero.view(draws, -1), log_one.view(draws, -1)
            log_p = torch.where(value[rare] > 0.5, one, zero)
            log_mean = log_mean.masked_scatter(rare, log_p.logsumexp(0) - math.log(draws))
        return log_mean

    @property
    def _standard(self) -> StandardTails | None:
        """The family of the random side in product form, if it has one."""
        return None if self.base_dist is None else cost_family(type(self.base_dist)).standard

    def _product_form(self) -> tuple[Any, ...]:
        """The arguments of `event_probabilities`."""
        point, loc = self.point, self.base_dist.loc
        if isinstance(self.cost, Tensor):  # r > c is -r < -c, and the family is symmetric
            point, loc = -point, -loc
        alternatives = self.cost_event_dim == 2
        return self._standard, point, loc, self.base_dist.scale, self._logits, alternatives

    def _log_form(self, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, from logarithms alone.

        :param where: elements to select, of a shape that ends in `batch_shape`; the result is a
            vector. All by default, and always for a certain event.
        """
        if self.base_dist is None:
            happened = (self.cost < self.revenue).all(-1)
            happened = happened.any(-1) if self.cost_event_dim == 2 else happened
            log_zero, log_one = (~happened).double().log(), happened.double().log()
        else:
            log_hit, log_miss = self.coordinate_log_probs(where)  # [..., (G,) K]
            logits = self._logits
            if where is not None and logits is not None:
                logits = _at(where, logits, self._cost_shape[:-1])
            alternatives = self.cost_event_dim == 2
            log_zero, log_one = event_log_probs(log_hit, log_miss, logits, alternatives)
        if where is not None:
            return log_zero, log_one
        return log_zero.expand(self.batch_shape), log_one.expand(self.batch_shape)

    @torch.no_grad()
    def probability64(self) -> Tensor:
        """Pr(y = 1) in float64, of shape `batch_shape`, without logarithms and without gradients.

        It needs one error function for a Gaussian cost, where `log_probs64` needs two and two
        logarithms.
        """
        if isinstance(self.cost, Tensor):
            return self.log_probs64()[1].exp()
        return planes_of(self).probability64().expand(self.batch_shape)

    def coordinate_log_probs(self, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log Pr(c_k < r_k) and log Pr(c_k >= r_k) of every coordinate, float64, `[..., (G,) K]`.

        For an `InfiniteCost` these are the probabilities given that the cost is finite.

        :param where: elements of `batch_shape` to select, [n, (G,) K]; all by default.
        """
        base, point = self.base_dist, self.point
        if where is not None:
            names, shape = type(base).arg_constraints, self._cost_shape
            base = type(base)(**{name: _at(where, getattr(base, name), shape) for name in names})
            point = _at(where, point, shape)
        log_below, log_above = tail_log_probs(base, point)
        # Against a known cost it is the revenue that has to be above.
        return (log_above, log_below) if isinstance(self.cost, Tensor) else (log_below, log_above)

    def cost_posterior(self, y: Tensor) -> CostPosterior:
        """p(c | y), exact; the event must have a random cost and a known revenue."""
        return CostPosterior(self, y, validate_args=self._validate_args)

    def revenue_posterior(self, y: Tensor) -> RevenuePosterior:
        """p(r | y), exact, for a random cost and a random revenue."""
        return RevenuePosterior(self, y, validate_args=self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """log Pr(y = value), of the broadcast shape of `value` and `batch_shape`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob64(value).to(self.dtype)

    @property
    def mean(self) -> Tensor:
        """Pr(y = 1)."""
        return self.probabilities64()[1].to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Pr(y = 1) Pr(y = 0)."""
        zero, one = self.probabilities64()
        return (zero * one).to(self.dtype)

    def entropy(self) -> Tensor:
        """Entropy of y in nats."""
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for log_p in self.log_probs64():
            possible = log_p > -math.inf
            finite = torch.where(possible, log_p, 0.0)
            total = total - torch.where(possible, finite.exp() * finite, 0.0)
        return total.to(self.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of y as 0.0 or 1.0, of shape `sample_shape + batch_shape`."""
        shape = self._extended_shape(sample_shape)
        return torch.bernoulli(self.mean.expand(shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The outcomes 0 and 1 along a new leftmost dimension."""
        support = torch.arange(2.0, dtype=self.dtype, device=self.device)
        support = support.reshape((2,) + (1,) * len(self.batch_shape))
        return support.expand((2, *self.batch_shape)) if expand else support


def integrates_over(cost: Any, revenue: Any) -> bool:
    """Whether `OrderEvent(cost, revenue)` has a closed form for this random revenue.

    It is E_k of the paper's section 3.4, and it exists for Gaussian costs of one alternative and a
    Gaussian revenue with independent coordinates. It does not for a revenue that is shared by
    several alternatives or correlated, nor for a transformed Gaussian.
    """
    try:
        OrderEvent(cost, revenue)
    except (TypeError, ValueError):
        return False
    return True


def _at(where: Tensor, values: Tensor, event_shape: torch.Size) -> Tensor:
    """The elements [n, ...] of values of this event shape that `where` selects."""
    return values.expand(where.shape + event_shape)[where]
