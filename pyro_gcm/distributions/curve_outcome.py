"""Outcomes that are where an order event first occurs: times, whole distributions, levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._shapes import broadcast_shapes
from pyro_gcm.distributions.curve_posterior import CurvePosterior
from pyro_gcm.distributions.event_curve import (
    ABOVE,
    AT,
    BELOW,
    BETWEEN,
    Axis,
    EventCurve,
    Sighting,
    first_occurrence,
)
from pyro_gcm.distributions.numerics import on_grid
from pyro_gcm.distributions.order_event import OrderEvent


class AxisUnits(NamedTuple):
    """How values of y and positions on the axis belong together; functions of float64 tensors.

    :param position: of a value.
    :param value: at a position.
    :param log_slope: log of the size of the derivative of the position by the value.
    """

    position: Callable[[Tensor], Tensor]
    value: Callable[[Tensor], Tensor]
    log_slope: Callable[[Tensor], Tensor]


class CurveOutcome(TorchDistribution):
    """Base of outcomes that are a function of where on an axis an order event first occurs.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param cost: a draw of the costs, given which the outcome is certain, or None.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        event: OrderEvent,
        event_shape: tuple[int, ...],
        cost: Tensor | None,
        validate_args: bool | None,
    ) -> None:
        self.event, self.cost = event, cost
        batch_shape = event.batch_shape
        if cost is not None:
            lead = cost.shape[: cost.dim() - event.cost_event_dim]
            batch_shape = broadcast_shapes(batch_shape, lead)
        super().__init__(
            torch.Size(batch_shape), torch.Size(event_shape), validate_args=validate_args
        )

    def _replaced(self, event: OrderEvent, cost: Tensor | None) -> Any:
        """The same outcome of another event or with other costs."""
        raise NotImplementedError

    def seen(self, value: Tensor) -> Sighting:
        """What a value of y says of the position."""
        raise NotImplementedError

    def log_slope(self, value: Tensor) -> Tensor | float:
        """log of the derivative of the position by the value, where the value is a position."""
        return 0.0

    def drawn(self, cost: Tensor) -> Tensor:
        """The outcome of known costs."""
        raise NotImplementedError

    def given_cost(self, cost: Tensor) -> Any:
        """The outcome for a draw of the costs, which is certain."""
        return self._replaced(self.event, cost)

    def marginalize(self, cost: TorchDistribution) -> Any:
        """The outcome with its costs integrated out.

        :param cost: the distribution of the costs.
        """
        return self._replaced(self.event.marginalize(cost), None)

    def cost_posterior(self, y: Tensor) -> CurvePosterior:
        """p(c | y), exact."""
        curve, validate = EventCurve(self.event), self._validate_args
        return CurvePosterior(curve, self.seen(y), validate_args=validate)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with a larger batch shape.

        :raises ValueError: if the batch shape does not broadcast to the new one.
        """
        new = self._replaced(self.event.expand(batch_shape), self.cost)
        if new.batch_shape != torch.Size(batch_shape):
            raise ValueError(
                f"batch_shape must be one to which {tuple(self.batch_shape)} broadcasts, got "
                f"{tuple(batch_shape)}"
            )
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability or log-density in the units of y, [...]."""
        if self._validate_args:
            self._validate_sample(value)
        if self.cost is not None:
            return self._log_prob_given_cost(value).to(self.event.dtype)
        seen = self.seen(value)
        log_p = EventCurve(self.event).log_prob(seen)
        if seen.has(AT):
            log_p = log_p + torch.where(seen.kind == AT, self.log_slope(value), 0.0)
        return log_p.to(self.event.dtype)

    def _log_prob_given_cost(self, value: Tensor) -> Tensor:
        """0 where known costs lead to the value, else -inf."""
        raise NotImplementedError

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        shape = torch.Size(sample_shape) + self.batch_shape
        cost: Any = self.cost
        if cost is None:
            prior: Any = self.event.cost
            cost = prior.expand(shape).sample()
        return self.drawn(cost).expand(*shape, *self.event_shape)


class AlongAxis(CurveOutcome):
    """A real y = value(s) at the first position s of an order event: a whole distribution.

    With y = loc - scale s it is Lemma 1 of the paper (equation multi_p_y): 1 - F(t | r) is the
    probability of the event at the revenues [-t, r], which rises with r.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param axis: positions [...] to the shifts of the revenues and their slopes, [..., (G,) K].
    :param units: of y.
    :param rises: whether y rises with the position, as a time does, or falls, as with s = -t.
    :param cost: a draw of the costs, or None.
    """

    support = constraints.real

    def __init__(
        self,
        event: OrderEvent,
        axis: Axis,
        units: AxisUnits,
        *,
        rises: bool = False,
        cost: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.axis, self.units, self.rises = axis, units, rises
        super().__init__(event, (), cost, validate_args)

    def _replaced(self, event: OrderEvent, cost: Tensor | None) -> AlongAxis:
        options: Any = {"rises": self.rises, "validate_args": self._validate_args}
        return AlongAxis(event, self.axis, self.units, cost=cost, **options)

    def seen(self, value: Tensor) -> Sighting:
        """The position itself."""
        shift, slope = self.axis(self.units.position(value.double()))
        kind = torch.full(value.shape, AT, dtype=torch.int8, device=value.device)
        return Sighting(kind, shift, shift, slope, self.event.cost_event_dim)

    def log_slope(self, value: Tensor) -> Tensor:
        """log of the derivative of the position by y."""
        return self.units.log_slope(value.double())

    def drawn(self, cost: Tensor) -> Tensor:
        """y of known costs; infinite where the event never occurs."""
        s = first_occurrence(cost, self.event.revenue, self.axis, self.event.cost_event_dim)
        return self.units.value(s)

    def _log_prob_given_cost(self, value: Tensor) -> Tensor:
        assert self.cost is not None
        return (self.drawn(self.cost) == value).double().log()

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value), float64."""
        position = self.units.position(value.double())
        one = EventCurve(self.event).probability(self.axis, position)
        return one if self.rises else 1.0 - one


class EventTime(CurveOutcome):
    """A time of an event that was seen in part: exactly, or between two times.

    A value is (lower, upper, entry): the event came at lower where upper is the same, and else
    after lower and not after upper, which is inf for a right-censored time and after which lower
    is 0 for a left-censored one. Only those whose event came after entry were seen at all, so that
    densities and probabilities are those given that; 0 where everyone was. A draw is (t, t, 0).

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param axis: positions [...] to the shifts of the revenues and their slopes, [..., (G,) K].
    :param units: of times above 0; their position rises with them.
    :param cost: a draw of the costs, or None.
    """

    support = constraints.independent(constraints.nonnegative, 1)

    def __init__(
        self,
        event: OrderEvent,
        axis: Axis,
        units: AxisUnits,
        *,
        cost: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.axis, self.units = axis, units
        super().__init__(event, (3,), cost, validate_args)

    def _replaced(self, event: OrderEvent, cost: Tensor | None) -> EventTime:
        return EventTime(event, self.axis, self.units, cost=cost, validate_args=self._validate_args)

    def seen(self, value: Tensor) -> Sighting:
        """What (lower, upper) [..., 3] says of the time."""
        lower, upper = value[..., 0].double(), value[..., 1].double()
        kind = torch.full(lower.shape, BETWEEN, dtype=torch.int8, device=lower.device)
        kind = kind.masked_fill(lower == 0.0, BELOW).masked_fill(upper.isinf(), ABOVE)
        kind = kind.masked_fill(lower == upper, AT)
        inside, below = lower > 0.0, (kind == BELOW) | (kind == BETWEEN)
        low_shift, slope = self.axis(self._position(lower, inside))
        if not below.any():
            return Sighting(kind, low_shift, low_shift, slope, self.event.cost_event_dim)
        high_shift, _ = self.axis(self._position(upper, below))
        return Sighting.of_ends(kind, low_shift, high_shift, slope, self.event.cost_event_dim)

    def _position(self, time: Tensor, where: Tensor) -> Tensor:
        """Positions of times [...]; elsewhere any one that is finite."""
        return torch.where(where, self.units.position(torch.where(where, time, 1.0)), 0.0)

    def log_slope(self, value: Tensor) -> Tensor:
        """log of the derivative of the position by an exact time."""
        lower = value[..., 0].double()
        return self.units.log_slope(torch.where(lower > 0.0, lower, 1.0))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of (lower, upper) given that the event came after entry, [...].

        It is a density in 1 / time for exact times.
        """
        log_p: Tensor = super().log_prob(value)
        log_entered = self.log_survival(value[..., 2])
        return log_p if log_entered is None else log_p - log_entered.to(log_p.dtype)

    def log_survival(self, time: Tensor) -> Tensor | None:
        """log Pr(the event comes after time), float64; None where every time is 0."""
        if not (time > 0.0).any():
            return None
        event = EventCurve(self.event).at(self.axis(self._position(time.double(), time > 0.0))[0])
        if self.cost is not None:
            event = event.given_cost(self.cost)
        log_p = event.log_prob64(torch.zeros((), dtype=torch.float64, device=time.device))
        return torch.where(time > 0.0, log_p, 0.0)

    def _log_prob_given_cost(self, value: Tensor) -> Tensor:
        assert self.cost is not None
        time, (lower, upper) = self.drawn(self.cost)[..., 0], value[..., :2].unbind(-1)
        inside = torch.where(lower == upper, time == lower, (lower < time) & (time <= upper))
        return (inside | ((time == math.inf) & upper.isinf())).double().log()

    def drawn(self, cost: Tensor) -> Tensor:
        """(t, t, 0) of known costs; t is inf where the event never comes."""
        s = first_occurrence(cost, self.event.revenue, self.axis, self.event.cost_event_dim)
        time = self.units.value(s)
        return torch.stack([time, time, torch.zeros_like(time)], -1)

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(the event comes by a time), float64; `value` [...] of times at least 0."""
        position = self._position(value.double(), value > 0.0)
        by_then = EventCurve(self.event).probability(self.axis, position)
        return torch.where(value > 0.0, by_then, 0.0)


class OrderedLevel(CurveOutcome):
    """One of the levels 0 .. L-1, whose cumulative probabilities Pr(y >= l) are order events.

    The revenues of level l are those of the event plus a shift that falls with l: thresholds on one
    more revenue (paper, Lemma 1). The cumulative probabilities cannot cross.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param shifts: of the levels 1 .. L-1, falling along the first dimension, [L-1, ..., (G,) K].
    :param cost: a draw of the costs, or None.
    """

    has_enumerate_support = True

    def __init__(
        self,
        event: OrderEvent,
        shifts: Tensor,
        *,
        cost: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.shifts = shifts
        super().__init__(event, (), cost, validate_args)

    @property
    def levels(self) -> int:
        """Number L of levels."""
        return len(self.shifts) + 1

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The levels."""
        return constraints.integer_interval(0, self.levels - 1)

    def _replaced(self, event: OrderEvent, cost: Tensor | None) -> OrderedLevel:
        return OrderedLevel(event, self.shifts, cost=cost, validate_args=self._validate_args)

    def seen(self, value: Tensor) -> Sighting:
        """The event occurs at the level and not at the next one."""
        top = self.levels - 1
        level = value.round().long()
        kind = torch.full(value.shape, BETWEEN, dtype=torch.int8, device=value.device)
        kind = kind.masked_fill(level == 0, ABOVE).masked_fill(level == top, BELOW)
        # Of level 0 the lower end is the first threshold, of the top one the higher end the last.
        low, high = ((level + step).clamp(1, top) - 1 for step in (1, 0))
        low_shift, high_shift = self._shift(low), self._shift(high)
        slope = torch.ones_like(low_shift)
        return Sighting.of_ends(kind, low_shift, high_shift, slope, self.event.cost_event_dim)

    def _shift(self, index: Tensor) -> Tensor:
        """The shifts of a threshold for every row, [..., (G,) K]."""
        dims = self.event.cost_event_dim
        chosen = index.reshape(*index.shape, *(1,) * dims)
        found = self.shifts[0]
        for number, shift in enumerate(self.shifts[1:], 1):
            found = torch.where(chosen == number, shift, found)
        return found.expand(broadcast_shapes(found.shape, (*index.shape, *(1,) * dims)))

    def cumulative(self) -> Tensor:
        """Pr(y >= l) for l = 1 .. L-1, float64, [L-1, ...]."""
        curve = EventCurve(self.event)
        return torch.stack([curve.at(on_grid(shift)).probability64() for shift in self.shifts])

    def probabilities(self) -> Tensor:
        """Pr(y = l) of every level, float64, [..., L]."""
        levels = torch.arange(self.levels, device=self.event.device).double()
        each = [
            EventCurve(self.event).log_prob(self.seen(level.expand(self.batch_shape)))
            for level in levels
        ]
        return torch.stack(each, -1).exp()

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value), float64."""
        level = value.floor().clamp(-1.0, self.levels - 1.0)
        inside = (level >= 0) & (level < self.levels - 1)
        shift = self._shift(level.clamp(0, self.levels - 2).long())
        below = 1.0 - EventCurve(self.event).at(on_grid(shift)).probability64()
        return torch.where(inside, below, (level >= 0).double())

    def drawn(self, cost: Tensor) -> Tensor:
        """The level of known costs."""
        hits = (cost < self.event.revenue + self.shifts).all(-1)
        if self.event.cost_event_dim == 2:
            hits = hits.any(-1)
        return hits.sum(0).to(self.event.dtype)

    def _log_prob_given_cost(self, value: Tensor) -> Tensor:
        assert self.cost is not None
        return (self.drawn(self.cost) == value).double().log()

    @property
    def mean(self) -> Tensor:
        """The mean level, the sum of the cumulative probabilities."""
        return self.cumulative().sum(0).to(self.event.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The levels along a new leftmost dimension."""
        values = torch.arange(self.levels, dtype=self.event.dtype, device=self.event.device)
        values = values.reshape(-1, *(1 for _ in self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values
