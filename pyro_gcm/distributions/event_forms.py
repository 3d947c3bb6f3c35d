"""The probability of an order event in each of its forms: as products, logarithms and probits.

Products (`products`) are the fastest and train; where they underflow, logarithms take over. Only
`probability64` and `rising_probit64` keep the order of revenues to the last bit, and predict.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_gcm._utils.torch_state import in_transform
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable, Left
from pyro_gcm.distributions.costs import InfiniteCost, prepend_atom
from pyro_gcm.distributions.event_products import SMALLEST_PRODUCT, log_probability, probabilities
from pyro_gcm.distributions.families import (
    cost_family,
    gaussian_difference,
    of_same_family,
    operand,
    parameters_of,
    tail_log_probs,
)
from pyro_gcm.distributions.numerics import log_any, probit
from pyro_gcm.distributions.products import Rising, from_planes, on_grid, planes


class EventForms(Expandable):
    """The computations of `OrderEvent` from its cost and its revenue.

    A coordinate is random through `base_dist`, and the event asks on which side of `point` it
    lies; `base_dist` is None where cost and revenue are both tensors.
    """

    def __init__(
        self,
        cost: Tensor | TorchDistribution,
        revenue: Tensor | TorchDistribution,
        *,
        cost_event_dim: int | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(cost, Left):
            cost_event_dim, cost = cost_event_dim or len(cost.fn.event_shape), cost.side
        revenue = revenue.side if isinstance(revenue, Left) else revenue
        finite, self.logits = cost, None
        if isinstance(cost, InfiniteCost):
            finite, self.logits = cost.cost, cost.logits
        of_cost, like, cost_shape, cost_dim = operand("cost", finite)
        of_revenue, other, revenue_shape, revenue_dim = operand("revenue", revenue)
        event_dim = cost_event_dim or max(cost_dim, revenue_dim) or 1
        for name, found in (("cost", cost_dim), ("revenue", revenue_dim)):
            if found not in (0, event_dim) or event_dim > 2:
                raise ValueError(
                    f"{name} has event_dim {found or event_dim}, expected {min(event_dim, 2)}"
                )
        if event_dim == 2 and of_revenue is not None:
            raise ValueError(
                "revenue is a distribution, but alternatives share their revenue, so that the "
                "events are not independent: sample the revenue and pass the draws"
            )
        shape = broadcast_shapes(cost_shape, revenue_shape)
        split = len(shape) - event_dim
        if split < 0:
            raise ValueError(
                f"cost must have at least {event_dim} dimensions with revenue, got shapes "
                f"{tuple(cost_shape)} and {tuple(revenue_shape)}"
            )
        self.cost: Any = cost
        self.revenue: Any = revenue
        self.cost_event_dim, self.cost_shape = event_dim, shape[split:]
        # c against r, r against c, or c - r against 0.
        if of_cost is None:
            self.base_dist, self.point = of_revenue, like
        elif of_revenue is None:
            self.base_dist, self.point = of_cost, other
        else:
            self.base_dist = gaussian_difference(of_cost, of_revenue)
            self.point = torch.zeros_like(self.base_dist.loc)
        base = self.base_dist
        # Under `torch.func` everything is in log form, which has no step that depends on values.
        self.standard = None if base is None else cost_family(type(base)).standard
        dtype = torch.promote_types(like.dtype, other.dtype)
        self.dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        self.device = like.device
        super().__init__(shape[:split], torch.Size(), validate_args=validate_args)
        if self._validate_args and isinstance(revenue, Tensor) and revenue.isnan().any():
            raise ValueError("revenue contains NaN")

    def log_probs64(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, each of shape `batch_shape`."""
        outcomes = torch.arange(2.0, device=self.device).reshape(2, *(1 for _ in self.batch_shape))
        log_zero, log_one = self.log_prob64(outcomes)
        return log_zero, log_one

    def log_prob64(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64.

        The logarithm of a probability up to 1/2, log1p of its complement above; in log form where
        the product form would lose digits.
        """
        if self.standard is None or in_transform():
            return self._log_form_of(value)
        shape = broadcast_shapes(value.shape, self.batch_shape)
        log_p, p = (part.expand(shape) for part in log_probability(value, *self._parameters()))
        return _where_rare(log_p, p, lambda: self._log_form_of(value))

    def probabilities64(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1) in float64, each of shape `batch_shape`.

        Both are right to a few ulp, relative, above 1e-260, and 0 with a gradient of 0 where they
        underflow; they are differentiable twice. A registered family has exp of `log_probs64`.
        """
        if self.standard is None or in_transform():
            log_zero, log_one = self._log_form()
            return log_zero.exp(), log_one.exp()
        zero, one = probabilities(*self._parameters())
        return zero.expand(self.batch_shape), one.expand(self.batch_shape)

    def _parameters(
        self, kind: torch.dtype = torch.float64, steepness: Tensor | None = None
    ) -> tuple[Any, ...]:
        """What the functions of `event_products` read, for products of a type.

        :param steepness: 1 / scale, if it is known.
        """
        point, loc = self.point, self.base_dist.loc
        if isinstance(self.cost, Tensor):  # r > c is -r < -c, and the family is symmetric
            point, loc = -point, -loc
        several = self.cost_event_dim == 2
        inverted = steepness is not None
        scale = steepness if inverted else self.base_dist.scale
        return self.standard, several, kind, inverted, point, loc, scale, self.logits

    def probit64(self) -> Tensor:
        """Phi^-1(Pr(y = 1)) in float64, of shape `batch_shape`.

        For one Gaussian cost it is (r - c's mean) / scale itself.
        """
        base = self.base_dist
        one_gaussian = isinstance(base, torch.distributions.Normal) and self.cost_shape == (1,)
        if one_gaussian and self.logits is None and not isinstance(self.cost, Tensor):
            # An infinite revenue stays as it is, with a gradient of 0.
            point, infinite = self.point.double(), self.point.isinf()
            u = (point.masked_fill(infinite, 0.0) - base.loc.double()) / base.scale.double()
            u = torch.where(infinite, point.detach(), u)
            return u.squeeze(-1).expand(self.batch_shape)
        if self.standard is None or in_transform():
            return probit(*reversed(self._log_form()))
        zero, one = self.probabilities64()
        smaller = torch.where(one < zero, one, zero)
        x = torch.special.ndtri(smaller.clamp_min(SMALLEST_PRODUCT))
        x = torch.where(one < zero, x, -x)
        return _where_rare(x, smaller, lambda: probit(*reversed(self._log_form())))

    def log_mean_prob(self, value: Tensor) -> Tensor:
        """log of the mean of Pr(y = value) over the leftmost dimension, the draws, in float64.

        One logarithm a row. A draw whose probability underflows counts for nothing beside the
        others; a row of which all do is computed in log form.

        :param value: outcomes, of shape `batch_shape[1:]`.
        """

        def in_logs() -> Tensor:
            return self._log_form_of(value).logsumexp(0) - math.log(self.batch_shape[0])

        if self.standard is None or in_transform():
            return in_logs()
        zero, one = self.probabilities64()
        mean = torch.where(value > 0.5, one, zero).mean(0)
        # A gradient of 0 for the rows that are replaced.
        return _where_rare(mean.clamp_min(SMALLEST_PRODUCT).log(), mean, in_logs)

    def _log_form(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, by the "first miss" identity.

        If not c < r, some coordinate is the first with c_i >= r_i, so that with F_i = Pr(c_i < r_i)

            log Pr(c < r)     = sum_i log F_i
            log Pr(not c < r) = logsumexp_i [sum_{j<i} log F_j + log(1 - F_i)]

        and over alternatives the same once more with the "first hit".
        """
        if self.base_dist is None:
            happened = (self.cost < self.revenue).all(-1)
            happened = happened.any(-1) if self.cost_event_dim == 2 else happened
            log_zero, log_one = (~happened).double().log(), happened.double().log()
        else:
            log_hit, log_miss = self.coordinate_log_probs()  # [..., (G,) K]
            if self.logits is not None:
                log_hit, log_miss = prepend_atom(self.logits, log_hit, log_miss)
            log_one, log_zero = log_hit.sum(-1), log_any(log_miss, log_hit)
            if self.cost_event_dim == 2:
                log_one, log_zero = log_any(log_one, log_zero), log_zero.sum(-1)
        return log_zero.expand(self.batch_shape), log_one.expand(self.batch_shape)

    def _log_form_of(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64 from `_log_form`."""
        log_zero, log_one = self._log_form()
        return torch.where(value > 0.5, log_one, log_zero)

    def coordinate_log_probs(self) -> tuple[Tensor, Tensor]:
        """log Pr(c_k < r_k) and log Pr(c_k >= r_k) of every coordinate, float64, `[..., (G,) K]`.

        For an `InfiniteCost` these are the probabilities given that the cost is finite.
        """
        log_below, log_above = tail_log_probs(self.base_dist, self.point)
        # Against a known cost it is the revenue that has to be above.
        return (log_above, log_below) if isinstance(self.cost, Tensor) else (log_below, log_above)

    @property
    def has_rows(self) -> bool:
        """Whether rows of the last batch dimension can be computed apart, with the same bits."""
        return self.base_dist is not None and bool(parameters_of(self.base_dist))

    def of_rows(self, rows: slice) -> Any:
        """The event of some rows of the last batch dimension, for its probabilities alone."""
        new, dims = copy.copy(self), len(self.cost_shape)
        for computed in ("rising", "points"):
            new.__dict__.pop(computed, None)
        base = {k: some(value, dims, rows) for k, value in parameters_of(self.base_dist).items()}
        new.base_dist = of_same_family(self.base_dist, **base)
        new.revenue = new.point = some(self.point, dims, rows)
        if self.logits is not None and self.odds64 is not None:
            new.logits, new.odds64 = (some(v, dims - 1, rows) for v in (self.logits, self.odds64))
        count = len(range(self.batch_shape[-1])[rows])
        new._batch_shape = torch.Size((*self.batch_shape[:-1], count))
        return new

    def given_finite(self) -> Any:
        """The event given that costs are finite, for its probabilities alone."""
        if self.logits is None:
            return self
        new = copy.copy(self)
        for computed in ("rising", "odds64"):
            new.__dict__.pop(computed, None)
        new.logits = None
        return new

    def with_revenue(self, revenue: Tensor) -> Any:
        """The same event at other values of what is known, [..., (G,) K], which are not checked."""
        if not torch.is_grad_enabled():
            self.rising  # noqa: B018  (which the copy has as well)
        new, dims = copy.copy(self), len(self.cost_shape)
        new.__dict__.pop("points", None)
        new.revenue = new.point = revenue
        shapes = [revenue.shape[:-dims], self.base_dist.batch_shape[:-dims]]
        if self.logits is not None:
            shapes.append(self.logits.shape[: self.logits.dim() - dims + 1])
        new._batch_shape = broadcast_shapes(*shapes)
        return new

    # What predictions read

    @cached_property
    def odds64(self) -> Tensor | None:
        """The odds of an infinite cost, [..., (G)]."""
        return None if self.logits is None else self.logits.double().exp()

    @cached_property
    def rising(self) -> Rising:
        """What does not depend on the revenue; events `with_revenue` share it."""
        return Rising(self)

    @cached_property
    def points(self) -> Tensor:
        """The revenues as `Rising` takes them."""
        return planes(on_grid(self.point), self.cost_shape)

    @torch.no_grad()
    def probability64(self) -> Tensor:
        """Pr(y = 1) in float64, of shape `batch_shape`, in steps that rise with every revenue."""
        if isinstance(self.cost, Tensor):
            return self.log_probs64()[1].exp()
        return self.rising.probability(self.points).expand(self.batch_shape)

    prediction64 = probability64

    @torch.no_grad()
    def rising_probit64(self) -> Tensor:
        """Phi^-1 of it in float64, in steps that rise with every revenue."""
        points = self.points

        def log_probs() -> tuple[Tensor, Tensor]:
            return self.with_revenue(from_planes(points, self.cost_shape)).log_probs64()

        return self.rising.probit(points, log_probs).expand(self.batch_shape)

    @property
    def event(self) -> Any:
        """Itself, as an outcome has one."""
        return self


def some(values: Tensor, event_dim: int, rows: slice) -> Tensor:
    """Some rows of values [..., B, *event], which may also be the same for all rows."""
    if values.dim() <= event_dim or values.shape[-1 - event_dim] == 1:
        return values
    index: Any = (..., rows, *[slice(None)] * event_dim)
    found: Tensor = values[index]
    return found


def _where_rare(values: Tensor, p: Tensor, in_logs: Callable[[], Tensor]) -> Tensor:
    """The values, and those of the log form where the product form of p has lost digits."""
    rare = p < SMALLEST_PRODUCT
    return values if rare.is_meta or not rare.any() else torch.where(rare, in_logs(), values)
