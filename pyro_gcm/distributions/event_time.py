"""The time of an order event, any part of which may be censored."""

from __future__ import annotations

import copy
import math

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm.distributions.curve_outcome import AxisUnits, CurveOutcome
from pyro_gcm.distributions.event_curve import Axis, CensoredObservation, Censoring
from pyro_gcm.distributions.numerics import in_transform
from pyro_gcm.distributions.order_event import OrderEvent

#: The end of time: an event that has not come by then never comes.
LATEST = 1e300


class EventTime(CurveOutcome):
    """A time of an event that was seen in part: exactly, or between two times.

    A value is (lower, upper, entry): the event came at lower where upper is the same, and else
    after lower and not after upper, which is inf for a right-censored time and after which lower
    is 0 for a left-censored one. Only those whose event came after entry were seen at all, so that
    densities and probabilities are those given that; 0 where everyone was. A draw is (t, t, 0), and
    (1e300, inf, 0) if the event never comes.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param axis: positions [...] to the shifts of the revenues and their slopes, [..., (G,) K].
    :param units: of times above 0; their position rises with them.
    :param pooled: whether all dimensions but the last are equally likely draws of a latent
        variable, which is no more likely to be the same in those who were seen: then log_prob is
        given that the event came after entry on average over the draws, and not given each.
    :param cost: a draw of the costs, or None.
    """

    support = constraints.independent(constraints.nonnegative, 1)

    def __init__(
        self,
        event: OrderEvent,
        axis: Axis,
        units: AxisUnits,
        *,
        pooled: bool = False,
        cost: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.axis, self.units, self.pooled = axis, units, pooled
        super().__init__(event, cost, (3,), validate_args)

    def over_draws(self) -> EventTime:
        """The same with `pooled`."""
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
        inside, below = (
            kind != Censoring.LEFT,
            (kind == Censoring.LEFT) | (kind == Censoring.INTERVAL),
        )
        # After a time of 0 is after the beginning of time, whose logarithm is finite.
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
        """Log-probability of (lower, upper) given that the event came after entry, [...].

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
        ends = (self.curve.same_position(at, end, self.event.dtype) for end in (low, high))
        at_low, at_high = ends
        inside = ((lower < time) | at_low) & ((time <= upper) | at_high)
        return torch.where(lower == upper, at_low, inside)

    def drawn(self, cost: Tensor) -> Tensor:
        """(t, t, 0) of known costs, and (1e300, inf, 0) where the event never comes."""
        s = self.curve.first_occurrence(self.axis, cost)
        time = self.units.value(s)
        return torch.stack([time.clamp(max=LATEST), time, torch.zeros_like(time)], -1)

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(the event comes by a time), float64; `value` [...] of times at least 0."""
        position = self._position(value.double(), value > 0.0)
        by_then = self.curve.probability(self.axis, position)
        return torch.where(value > 0.0, by_then, 0.0)
