"""Outcomes that are where an order event first occurs: numbers, ordered levels and times."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.torch_state import in_transform
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Enumerable, EventOutcome
from pyro_gcm.distributions.event_curve import (
    Axis,
    CensoredObservation,
    Censoring,
    CurvePosterior,
    EventCurve,
    same_position,
)
from pyro_gcm.distributions.order_event import OrderEvent

#: The end of time: an event that has not come by then never comes.
LATEST = 1e300


class CurveOutcome(EventOutcome):
    """Base of outcomes that are a function of where on an axis an order event first occurs.

    Given the costs the outcome is certain.
    """

    curve: EventCurve

    def _depend_on(self, event: OrderEvent, cost: Tensor | None) -> torch.Size:
        self.curve = EventCurve(event)
        return super()._depend_on(event, cost)

    def observation(self, value: Tensor) -> CensoredObservation:
        """Return the constraint that a value of y puts on the position."""
        raise NotImplementedError

    def log_slope(self, value: Tensor) -> Tensor | float:
        """log of the derivative of the position by the value, where the value is a position."""
        return 0.0

    def drawn(self, cost: Tensor) -> Tensor:
        """The outcome of known costs."""
        raise NotImplementedError

    def cost_posterior(self, y: Tensor) -> CurvePosterior:
        """p(c | y), exact."""
        self._check(y)
        return CurvePosterior(self.curve, self.observation(y), validate_args=self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability or log-density in the units of y, [...]."""
        self._check(value)
        if self.cost is not None:
            log_p = self._agrees(self.drawn(self.cost), value).double().log()
        else:
            observed = self.observation(value)
            log_p = self.curve.log_prob(observed)
            if observed.has(Censoring.EXACT):
                exact = observed.kind == Censoring.EXACT
                log_p = log_p + torch.where(exact, self.log_slope(value), 0.0)
        return self._wide(log_p.to(self.event.dtype))

    def _agrees(self, own: Tensor, value: Tensor) -> Tensor:
        """Whether the outcome of known costs is the value, or in it."""
        return own == value

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        shape = sample_shape + self.batch_shape
        cost = self.cost if self.cost is not None else self.event.cost.expand(shape).sample()
        return self.drawn(cost).expand(shape + self.event_shape)


class AxisOutcome(CurveOutcome):
    """Base of outcomes with units in which positions on the axis are told.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param axis: positions [...] to the shifts of the revenues and their slopes, [..., (G,) K].
    :param units: has how values of y and positions on the axis belong together, functions of
        float64 tensors: `position` of a value, `value` at a position, and `log_slope`, the log of
        the size of the derivative of the position by the value.
    """

    #: Event shape of the outcome.
    columns: tuple[int, ...] = ()

    def __init__(
        self,
        event: OrderEvent,
        axis: Axis,
        units: Any,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.axis, self.units = axis, units
        super().__init__(event, self.columns, validate_args)


class AlongAxis(AxisOutcome):
    """A real y = value(s) at the first position s of an order event: a whole distribution.

    With y = loc - scale s it is Lemma 1 of the paper (equation multi_p_y): 1 - F(t | r) is the
    probability of the event at the revenues [-t, r], which rises with r. So y falls with s.
    """

    support = constraints.real

    def observation(self, value: Tensor) -> CensoredObservation:
        """The position itself."""
        shift, slope = self.axis(self.units.position(value.double()))
        kind = torch.full(value.shape, Censoring.EXACT, dtype=torch.int8, device=value.device)
        return CensoredObservation(kind, shift, shift, slope, self.event.cost_event_dim)

    def log_slope(self, value: Tensor) -> Tensor:
        """log of the derivative of the position by y."""
        return self.units.log_slope(value.double())

    def drawn(self, cost: Tensor) -> Tensor:
        """y of known costs; infinite where the event never occurs."""
        return self.units.value(self.curve.first_occurrence(self.axis, cost))

    def _agrees(self, own: Tensor, value: Tensor) -> Tensor:
        own, at = (self.units.position(y.double()) for y in (own, value))
        return same_position(own, at, self.event.dtype)

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value), float64."""
        return 1.0 - self.curve.probability(self.axis(self.units.position(value.double()))[0])


class OrderedLevel(Enumerable, CurveOutcome):
    """One of the levels 0 .. L-1, whose cumulative probabilities Pr(y >= l) are order events.

    The revenues of level l are those of the event plus a shift that falls with l: thresholds on one
    more revenue (paper, Lemma 1). The cumulative probabilities cannot cross.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param shifts: of the levels 1 .. L-1, falling along the first dimension, [L-1, ..., (G,) K].
    """

    def __init__(
        self,
        event: OrderEvent,
        shifts: Tensor,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.shifts, self.levels = shifts, len(shifts) + 1
        super().__init__(event, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The levels."""
        return constraints.integer_interval(0, self.levels - 1)

    def observation(self, value: Tensor) -> CensoredObservation:
        """The event occurs at the level and not at the next one."""
        level, top = value.round().long(), self.levels - 1
        kind = torch.full(value.shape, Censoring.INTERVAL, dtype=torch.int8, device=value.device)
        kind = kind.masked_fill(level == 0, Censoring.RIGHT)
        kind = kind.masked_fill(level == top, Censoring.LEFT)
        # Of level 0 the lower end is the first threshold, of the top one the higher end the last.
        low, high = ((level + step).clamp(1, top) - 1 for step in (1, 0))
        ends, dims = (self._shift(low), self._shift(high)), self.event.cost_event_dim
        return CensoredObservation.of_ends(kind, *ends, torch.ones_like(ends[0]), dims)

    def _shift(self, index: Tensor) -> Tensor:
        """The shifts of a threshold for every row, [..., (G,) K]."""
        dims = self.event.cost_event_dim
        chosen = index.reshape(*index.shape, *(1,) * dims)
        found = self.shifts[0]
        for number, shift in enumerate(self.shifts[1:], 1):
            found = torch.where(chosen == number, shift, found)
        return found.expand(broadcast_shapes(found.shape, (*index.shape, *(1,) * dims)))

    def prediction64(self) -> Tensor:
        """Return the mean level, the sum of Pr(y >= l) over l from 1, which predictions average."""
        return self.cumulative().sum(0)

    def cumulative(self) -> Tensor:
        """Pr(y >= l) for l = 1 .. L-1, float64, [L-1, ...]."""
        return torch.stack([self.curve.probability(shift) for shift in self.shifts])

    def probabilities(self) -> Tensor:
        """Pr(y = l) of every level, float64, [..., L]."""
        levels = torch.arange(self.levels, device=self.event.device).double()
        seen = [self.observation(level.expand(self.batch_shape)) for level in levels]
        return torch.stack([self.curve.log_prob(each) for each in seen], -1).exp()

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value), float64."""
        level = value.floor().clamp(-1.0, self.levels - 1.0)
        inside = (level >= 0) & (level < self.levels - 1)
        shift = self._shift(level.clamp(0, self.levels - 2).long())
        below = 1.0 - self.curve.probability(shift)
        return torch.where(inside, below, (level >= 0).double())

    def drawn(self, cost: Tensor) -> Tensor:
        """The level of known costs."""
        events = [self.curve.at(shift).given_cost(cost) for shift in self.shifts]
        return torch.stack([event.mean for event in events]).sum(0)

    @property
    def mean(self) -> Tensor:
        """The mean level, the sum of the cumulative probabilities, with gradients."""
        levels = [self.curve.at(shift).probabilities64()[1] for shift in self.shifts]
        return torch.stack(levels).sum(0).to(self.event.dtype).expand(self.batch_shape)


class EventTime(AxisOutcome):
    """A time of an event that was seen in part: exactly, or between two times.

    A value is (lower, upper, entry): the event occurred at lower where upper is the same, and else
    after lower and not after upper, which is inf for a right-censored time and after which lower
    is 0 for a left-censored one. Only those whose event occurred after entry were seen at all, so
    that densities and probabilities are those given that; 0 where everyone was. A draw is
    (t, t, 0), and (1e300, inf, 0) if the event never comes. The position of a time rises with it.
    """

    support = constraints.independent(constraints.nonnegative, 1)
    columns = (3,)
    pooled = False

    def over_draws(self) -> EventTime:
        """The same, whose dimensions but the last are equally likely draws of a latent variable.

        It is no more likely to be the same in those who were seen: log_prob is given that the
        event occurred after entry on average over the draws, and not given each.
        """
        new = copy.copy(self)
        new.pooled = True
        return new

    def observation(self, value: Tensor) -> CensoredObservation:
        """Return the constraint that (lower, upper) [..., 3] puts on the time."""
        lower, upper = value[..., 0].double(), value[..., 1].double()
        kind = torch.full(lower.shape, Censoring.INTERVAL, dtype=torch.int8, device=lower.device)
        for where, seen in ((lower == 0.0, Censoring.LEFT), (upper.isinf(), Censoring.RIGHT)):
            kind = kind.masked_fill(where, seen)
        kind = kind.masked_fill(lower == upper, Censoring.EXACT)
        inside = kind != Censoring.LEFT
        below = (kind == Censoring.LEFT) | (kind == Censoring.INTERVAL)
        # After a time of 0 is after the beginning of time.
        low_shift, slope = self.axis(self._position(lower.clamp(min=1.0 / LATEST), inside))
        dims = self.event.cost_event_dim
        if not (in_transform() or below.any()):
            return CensoredObservation(kind, low_shift, low_shift, slope, dims)
        high_shift, _ = self.axis(self._position(upper, below))
        return CensoredObservation.of_ends(kind, low_shift, high_shift, slope, dims)

    def _position(self, time: Tensor, where: Tensor) -> Tensor:
        """Positions of times [...]; elsewhere any one that is finite."""
        return torch.where(where, self.units.position(torch.where(where, time, 1.0)), 0.0)

    def log_slope(self, value: Tensor) -> Tensor:
        """log of the derivative of the position by an exact time."""
        lower = value[..., 0].double()
        return self.units.log_slope(torch.where(lower > 0.0, lower, 1.0))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of (lower, upper) given that the event occurred after entry, [...].

        It is a density in 1 / time for exact times.
        """
        log_p: Tensor = super().log_prob(value)
        if not (in_transform() or (value[..., 2] > 0.0).any()):
            return log_p
        log_entered = self.log_survival(value[..., 2]).expand(log_p.shape)
        if self.pooled and log_entered.dim() > 1:
            draws = log_entered[..., 0].numel()
            log_entered = log_entered.flatten(0, -2).logsumexp(0) - math.log(draws)
        return log_p - log_entered.to(log_p.dtype)

    def log_survival(self, time: Tensor) -> Tensor:
        """log Pr(the event comes after a time), float64, 0 for a time of 0."""
        event = self.curve.at(self.axis(self._position(time.double(), time > 0.0))[0])
        if self.cost is not None:
            event = event.given_cost(self.cost)
        log_p = event.log_prob64(torch.zeros((), dtype=torch.float64, device=time.device))
        return torch.where(time > 0.0, log_p, 0.0)

    def _agrees(self, own: Tensor, value: Tensor) -> Tensor:
        time, (lower, upper) = own[..., 1], value[..., :2].unbind(-1)
        at, low, high = (self._position(v.double(), v > 0.0) for v in (time, lower, upper))
        at_low, at_high = (same_position(at, end, self.event.dtype) for end in (low, high))
        inside = ((lower < time) | at_low) & ((time <= upper) | at_high)
        return torch.where(lower == upper, at_low, inside)

    def drawn(self, cost: Tensor) -> Tensor:
        """(t, t, 0) of known costs, and (1e300, inf, 0) where the event never comes."""
        time = self.units.value(self.curve.first_occurrence(self.axis, cost))
        return torch.stack([time.clamp(max=LATEST), time, torch.zeros_like(time)], -1)

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(the event comes by a time), float64; `value` [...] of times at least 0."""
        shift, _ = self.axis(self._position(value.double(), value > 0.0))
        by_then = self.curve.probability(shift)
        return torch.where(value > 0.0, by_then, 0.0)
