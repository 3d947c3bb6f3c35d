"""The order event y = 1{c < r} as a distribution on {0, 1}."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from pyro.distributions.util import broadcast_shape
from torch import Tensor

from pyro_gcm.distributions.cost_posterior import CostPosterior
from pyro_gcm.distributions.families import base_distribution, cdf, cost_family, tail_log_probs
from pyro_gcm.distributions.infinite_cost import InfiniteCost, finite_part, prepend_atom
from pyro_gcm.distributions.numerics import log_any
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
    probability is in closed form. Two distributions are possible in one case: independent Gaussian
    cost and Gaussian revenue of one alternative, whose difference is Gaussian again. An infinite
    revenue is allowed and gets gradient 0. An `InfiniteCost` keeps Pr(y = 1) below a bound that no
    revenue passes. Log-probabilities keep full relative precision in both tails; they are computed
    in float64 and returned in the dtype of the arguments.

    Source: paper, equation (py_on_zr) in appendix D.2, for one alternative; the minimum inside a
    maximum of Sill (1997) for several.

    :param cost: tensor `[..., K]` or `[..., G, K]`, or a distribution with that event shape.
    :param revenue: tensor or distribution that broadcasts against it.
    :param cost_event_dim: 1 for `[K]`, 2 for `[G, K]`; read off a distribution, 1 for two tensors.
    :raises ValueError: for a distribution whose coordinates are not independent, and for a random
        revenue that has no closed form.
    :raises TypeError: for a cost family nobody registered.
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
        finite_cost = finite_part(cost)
        event_dims = {
            name: _event_dim(name, value)
            for name, value in (("cost", finite_cost), ("revenue", revenue))
            if not isinstance(value, Tensor)
        }
        self.cost_event_dim = cost_event_dim or max(event_dims.values(), default=1)
        for name, event_dim in event_dims.items():
            if event_dim != self.cost_event_dim:
                raise ValueError(
                    f"{name} has event_dim {event_dim}, expected {self.cost_event_dim}"
                )
        if "revenue" in event_dims and self.cost_event_dim == 2:
            raise ValueError(
                "revenue is a distribution, but alternatives share their revenue, so that the "
                "events are not independent: sample the revenue and pass the draws"
            )
        if len(event_dims) == 2:
            _gaussian_difference(finite_cost, revenue)
        self.cost = cost
        self.revenue = revenue
        self.dtype, self.device = _dtype_and_device(finite_cost, revenue)
        shape = broadcast_shape(_full_shape(cost), _full_shape(revenue))
        if len(shape) < self.cost_event_dim:
            raise ValueError(
                f"cost and revenue need at least {self.cost_event_dim} dimensions, got shapes "
                f"{tuple(_full_shape(cost))} and {tuple(_full_shape(revenue))}"
            )
        batch_shape = torch.Size(shape[: len(shape) - self.cost_event_dim])
        super().__init__(batch_shape, torch.Size(), validate_args=validate_args)
        if self._validate_args and isinstance(revenue, Tensor) and revenue.isnan().any():
            raise ValueError("revenue contains NaN")

    def expand(self, batch_shape: Any, _instance: Any = None) -> OrderEvent:
        """The same event with a larger batch shape; nothing is copied."""
        new: OrderEvent = self._get_checked_instance(OrderEvent, _instance)
        new.__dict__.update(
            {k: v for k, v in self.__dict__.items() if k not in ("_batch_shape", "_event_shape")}
        )
        super(OrderEvent, new).__init__(torch.Size(batch_shape), torch.Size(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    def given_cost(self, cost: Tensor) -> OrderEvent:
        """The event itself, for a draw of the costs."""
        return OrderEvent(
            cost,
            self.revenue,
            cost_event_dim=self.cost_event_dim,
            validate_args=self._validate_args,
        )

    def marginalize(
        self, cost: TorchDistribution, revenue: TorchDistribution | None = None
    ) -> OrderEvent:
        """The event with its costs integrated out, for their distribution; or its revenue too."""
        return OrderEvent(
            cost,
            self.revenue if revenue is None else revenue,
            cost_event_dim=self.cost_event_dim,
            validate_args=self._validate_args,
        )

    def given_revenue(self, revenue: Tensor) -> OrderEvent:
        """The event for a draw of a random revenue."""
        return OrderEvent(
            self.cost,
            revenue,
            cost_event_dim=self.cost_event_dim,
            validate_args=self._validate_args,
        )

    def difference(self) -> OrderEvent:
        """The same event as c - r < 0, for a random revenue; infinite costs stay infinite."""
        gaussian: Any = _gaussian_difference(finite_part(self.cost), self.revenue)
        zero = torch.zeros_like(gaussian.loc)
        gaussian = gaussian.to_event(1)
        if isinstance(self.cost, InfiniteCost):
            gaussian = InfiniteCost(gaussian, self.cost.logits)
        return OrderEvent(gaussian, zero)

    def log_probs(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1), each of shape `batch_shape`.

        "First miss": not c < r means that some coordinate is the first with c_i >= r_i, so

            log Pr(c < r)     = sum_i log F_i
            log Pr(not c < r) = logsumexp_i [sum_{j<i} log F_j + log(1 - F_i)]

        and over alternatives the same with "first hit".
        """
        log_zero, log_one = self.log_probs64()
        return log_zero.to(self.dtype), log_one.to(self.dtype)

    def log_probs64(self) -> tuple[Tensor, Tensor]:
        """As `log_probs`, before it is rounded to the dtype of the arguments."""
        if isinstance(self.cost, Tensor) and isinstance(self.revenue, Tensor):
            log_one = self._event().double().log()
            log_zero = (~self._event()).double().log()
        else:
            log_hit, log_miss = prepend_atom(self.cost, *self.coordinate_log_probs())
            log_one = log_hit.sum(-1)
            log_zero = log_any(log_miss, log_hit)
            if self.cost_event_dim == 2:
                log_one = log_any(log_one, log_zero)
                log_zero = log_zero.sum(-1)
        return log_zero.expand(self.batch_shape), log_one.expand(self.batch_shape)

    @torch.no_grad()
    def probability64(self) -> Tensor:
        """Pr(y = 1) in float64, of shape `batch_shape`, without logarithms and without gradients.

        One error function a Gaussian cost, where `log_probs64` has two and two logarithms. Every
        step rises with the coordinates' probabilities, as far as log1p and expm1 do.
        """
        if isinstance(self.cost, Tensor):
            return self.log_probs64()[1].exp()
        cost, revenue = finite_part(self.cost), self.revenue
        if not isinstance(revenue, Tensor):
            cost = _gaussian_difference(cost, revenue)  # c - r
            revenue = torch.zeros_like(cost.loc)
        below = cdf(cost, revenue).prod(-1)
        if isinstance(self.cost, InfiniteCost):
            below = below * torch.sigmoid(-self.cost.logits.double())
        if self.cost_event_dim == 2:
            below = -torch.expm1(torch.log1p(-below).sum(-1))
        return below.expand(self.batch_shape)

    def coordinate_log_probs(self) -> tuple[Tensor, Tensor]:
        """log Pr(c_k < r_k) and log Pr(c_k >= r_k) per coordinate, float64, `[..., (G,) K]`.

        For an `InfiniteCost` those of a finite cost.
        """
        if isinstance(self.cost, Tensor):  # c < r is "r above c": the revenue's upper tail at c
            log_below, log_above = tail_log_probs(self.revenue, self.cost)
            return log_above, log_below
        if isinstance(self.revenue, Tensor):
            return tail_log_probs(finite_part(self.cost), self.revenue)
        difference = _gaussian_difference(finite_part(self.cost), self.revenue)  # c - r
        return tail_log_probs(difference, torch.zeros_like(difference.loc))

    def cost_posterior(self, y: Tensor) -> CostPosterior:
        """p(c | y), exact; the event must have a random cost and a known revenue."""
        return CostPosterior(self, y, validate_args=self._validate_args)

    def revenue_posterior(self, y: Tensor) -> RevenuePosterior:
        """p(r | y), exact, for a random cost and a random revenue."""
        return RevenuePosterior(self, y, validate_args=self._validate_args)

    def _event(self) -> Tensor:
        below = (self.cost < self.revenue).all(-1)
        return below.any(-1) if self.cost_event_dim == 2 else below

    def log_prob(self, value: Tensor) -> Tensor:
        """log Pr(y = value), of the broadcast shape of `value` and `batch_shape`."""
        if self._validate_args:
            self._validate_sample(value)
        log_zero, log_one = self.log_probs64()
        return torch.where(value > 0.5, log_one, log_zero).to(self.dtype)

    @property
    def mean(self) -> Tensor:
        """Pr(y = 1)."""
        return self.log_probs64()[1].exp().to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Pr(y = 1) Pr(y = 0)."""
        log_zero, log_one = self.log_probs64()
        return (log_zero + log_one).exp().to(self.dtype)

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

    That is E_k of the paper's section 3.4: for one alternative of Gaussian costs and a Gaussian
    revenue with independent coordinates. Not for a revenue that several alternatives share or
    whose coordinates are correlated; nor for a map of a Gaussian, which is another distribution.
    """
    try:
        OrderEvent(cost, revenue)
    except (TypeError, ValueError):
        return False
    return True


def _event_dim(name: str, value: Any) -> int:
    """The event dimension of an independent distribution; an error for any other argument."""
    if not isinstance(value, torch.distributions.Distribution):
        raise TypeError(f"{name} must be a tensor or a distribution, got {type(value).__name__}")
    event_dim = len(value.event_shape)
    if event_dim not in (1, 2):
        raise ValueError(
            f"{name} has event_dim {event_dim}, expected 1 for [K] or 2 for [G, K]; "
            "use .to_event(1) or .to_event(2)"
        )
    cost_family(type(base_distribution(value)))
    return event_dim


def _gaussian_difference(cost: Any, revenue: Any) -> dist.Normal:
    """The distribution of c - r for independent Gaussian c and r (E_k in the paper's IGCM)."""
    bases = base_distribution(cost), base_distribution(revenue)
    for base in bases:
        if not isinstance(base, torch.distributions.Normal):
            raise ValueError(
                "a random revenue has a closed form for Gaussian cost and Gaussian revenue only, "
                f"got {type(bases[0]).__name__} and {type(bases[1]).__name__}: sample the revenue"
            )
    (c, r) = bases
    scale = torch.hypot(c.scale.double(), r.scale.double())
    return dist.Normal(c.loc.double() - r.loc.double(), scale)


def _full_shape(value: Any) -> torch.Size:
    return value.shape if isinstance(value, Tensor) else value.batch_shape + value.event_shape


def _dtype_and_device(*arguments: Any) -> tuple[torch.dtype, torch.device]:
    """The floating-point type that the arguments promote to, and their device."""
    tensors = [
        value if isinstance(value, Tensor) else _a_parameter(base_distribution(value))
        for value in arguments
    ]
    dtype = torch.promote_types(tensors[0].dtype, tensors[1].dtype)
    return dtype if dtype.is_floating_point else torch.get_default_dtype(), tensors[0].device


def _a_parameter(distribution: Any) -> Tensor:
    parameter: Tensor = getattr(distribution, next(iter(distribution.arg_constraints)))
    return parameter
