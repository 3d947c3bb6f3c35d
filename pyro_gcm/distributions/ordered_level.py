"""Ordered levels whose cumulative probabilities are order events."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.distributions.curve_outcome import CurveOutcome
from pyro_gcm.distributions.event_curve import ABOVE, BELOW, BETWEEN, Sighting
from pyro_gcm.distributions.numerics import on_grid
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.parameter_types import tensors


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
        tensors(shifts=shifts)
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

    def prediction64(self) -> Tensor:
        """What a prediction averages: the mean level, the sum of Pr(y >= l) over l from 1."""
        return self.cumulative().sum(0)

    def cumulative(self) -> Tensor:
        """Pr(y >= l) for l = 1 .. L-1, float64, [L-1, ...]."""
        curve = self.curve
        return torch.stack([curve.at(on_grid(shift)).probability64() for shift in self.shifts])

    def probabilities(self) -> Tensor:
        """Pr(y = l) of every level, float64, [..., L]."""
        levels = torch.arange(self.levels, device=self.event.device).double()
        each = [self.curve.log_prob(self.seen(level.expand(self.batch_shape))) for level in levels]
        return torch.stack(each, -1).exp()

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value), float64."""
        level = value.floor().clamp(-1.0, self.levels - 1.0)
        inside = (level >= 0) & (level < self.levels - 1)
        shift = self._shift(level.clamp(0, self.levels - 2).long())
        below = 1.0 - self.curve.at(on_grid(shift)).probability64()
        return torch.where(inside, below, (level >= 0).double())

    def drawn(self, cost: Tensor) -> Tensor:
        """The level of known costs."""
        level: Any = 0
        for shift in self.shifts:
            hits = (cost < self.event.revenue + shift).all(-1)
            level = level + (hits.any(-1) if self.event.cost_event_dim == 2 else hits).long()
        drawn: Tensor = level.to(self.event.dtype)
        return drawn

    def _log_prob_given_cost(self, value: Tensor) -> Tensor:
        assert self.cost is not None
        return (self.drawn(self.cost) == value).double().log()

    @property
    def mean(self) -> Tensor:
        """The mean level, the sum of the cumulative probabilities."""
        return self.cumulative().sum(0).to(self.event.dtype).expand(self.batch_shape)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The levels along a new leftmost dimension."""
        values = torch.arange(self.levels, dtype=self.event.dtype, device=self.event.device)
        values = values.reshape(-1, *(1 for _ in self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values
