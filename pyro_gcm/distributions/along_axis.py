"""A real outcome whose whole distribution is an order event along an axis (paper, Lemma 1)."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm.distributions.curve_outcome import AxisUnits, CurveOutcome
from pyro_gcm.distributions.event_curve import AT, Axis, Sighting, first_occurrence, same_position
from pyro_gcm.distributions.order_event import OrderEvent


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
        at = self.units.position(value.double())
        own = self.units.position(self.drawn(self.cost))
        return same_position(own, at, self.event.dtype).double().log()

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value), float64."""
        position = self.units.position(value.double())
        one = self.curve.probability(self.axis, position)
        return one if self.rises else 1.0 - one
