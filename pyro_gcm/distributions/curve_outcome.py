"""Outcomes that are where an order event first occurs: times, whole distributions, levels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.distributions.curve_posterior import CurvePosterior
from pyro_gcm.distributions.event_curve import AT, EventCurve, Sighting
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.parameter_types import an_event, wider


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
        an_event(event)
        self.event, self.cost = event, cost
        batch_shape = event.batch_shape
        if cost is not None:
            lead = cost.shape[: cost.dim() - event.cost_event_dim]
            batch_shape = broadcast_shapes(batch_shape, lead)
        super().__init__(
            torch.Size(batch_shape), torch.Size(event_shape), validate_args=validate_args
        )

    @classmethod
    def infer_shapes(cls, **arg_shapes: Any) -> tuple[torch.Size, torch.Size]:
        """Nothing: the shape of an event is not that of its costs.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("the shape of an event is not that of its costs")

    @cached_property
    def curve(self) -> EventCurve:
        """The probability of the event along the axis."""
        return EventCurve(self.event)

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
        if self._validate_args:
            self._validate_sample(y)
        return CurvePosterior(self.curve, self.seen(y), validate_args=self._validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with a larger batch shape.

        :raises ValueError: if the batch shape does not broadcast to the new one.
        """
        return self._replaced(self.event.expand(wider(self, batch_shape)), self.cost)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability or log-density in the units of y, [...]."""
        if self._validate_args:
            self._validate_sample(value)
        if self.cost is not None:
            log_p = self._log_prob_given_cost(value)
        else:
            seen = self.seen(value)
            log_p = self.curve.log_prob(seen)
            if seen.has(AT):
                log_p = log_p + torch.where(seen.kind == AT, self.log_slope(value), 0.0)
        shape = broadcast_shapes(log_p.shape, self.batch_shape)
        return log_p.to(self.event.dtype).expand(shape)

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
        return self.drawn(cost).expand(shape + self.event_shape)
