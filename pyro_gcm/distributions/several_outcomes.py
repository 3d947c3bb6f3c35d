"""Several outcomes of one latent variable, each with costs and an order event of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import EventOutcome, Expandable, real_costs
from pyro_gcm.distributions.families import base_distribution, of_same_family, parameters_of
from pyro_gcm.distributions.order_event import OrderEvent

#: An order event of some of the costs to the distribution of an outcome.
Outcome = Callable[[OrderEvent], Any]


def costs_between(cost: Any, start: int, stop: int) -> Any:
    """The costs start .. stop - 1 of every alternative: of a tensor, or of a distribution."""
    if isinstance(cost, Tensor):
        return cost[..., start:stop]
    base = base_distribution(cost)
    parts = {name: value[..., start:stop] for name, value in parameters_of(base).items()}
    return of_same_family(base, **parts).to_event(len(cost.event_shape))


def event_between(event: OrderEvent, start: int, stop: int) -> OrderEvent:
    """The order event of some of the costs."""
    cost = costs_between(event.cost, start, stop)
    part = event.replaced(cost, event.revenue[..., start:stop])
    return part.expand(broadcast_shapes(part.batch_shape, event.batch_shape))


class SeveralOutcomes(EventOutcome):
    """Outcomes side by side, independent given the latent variable.

    :param event: `OrderEvent` of all costs and all revenues.
    :param outcomes: what each of them makes of the event of its own costs.
    :param costs: number of costs of each, in order; they are the last dimension of the event.
    :param widths: number of columns of each, in order; a value has all of them, [..., D].
    :param cost: a draw of all costs, or None.
    """

    support = constraints.real_vector
    has_rows = False
    parts: list[Any]

    def __init__(
        self,
        event: OrderEvent,
        outcomes: Sequence[Outcome],
        costs: Sequence[int],
        widths: Sequence[int],
        *,
        cost: Tensor | None = None,
    ) -> None:
        self.outcomes, self.costs, self.widths = outcomes, tuple(costs), tuple(widths)
        super().__init__(event, cost, (sum(widths),), validate_args=False)

    def _depend_on(self, event: OrderEvent, cost: Tensor | None) -> torch.Size:
        ends = list(itertools.accumulate(self.costs, initial=0))
        self.parts = []
        for outcome, (start, stop) in zip(self.outcomes, itertools.pairwise(ends), strict=True):
            part = outcome(event_between(event, start, stop))
            self.parts.append(part if cost is None else part.given_cost(cost[..., start:stop]))
        own = super()._depend_on(event, cost)
        return broadcast_shapes(own, *(part.batch_shape for part in self.parts))

    def split(self, value: Tensor) -> list[Tensor]:
        """The columns [..., D] of each outcome: [...], or [..., width] where it has several."""
        columns = value.split(self.widths, -1)
        return [c[..., 0] if c.shape[-1] == 1 else c for c in columns]

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of the log-probabilities or -densities of the outcomes, [...]."""
        pairs = zip(self.parts, self.split(value), strict=True)
        return self._wide(sum(part.log_prob(y) for part, y in pairs))

    def cost_posterior(self, y: Tensor) -> SideBySide:
        """p(c | y): the costs of each outcome given that outcome."""
        pairs = zip(self.parts, self.split(y), strict=True)
        return SideBySide([part.cost_posterior(column) for part, column in pairs])

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + (D,)`."""
        draws, lead = [], sample_shape + self.batch_shape
        for part, width in zip(self.parts, self.widths, strict=True):
            draw = part.expand(self.batch_shape).sample(sample_shape).double()
            draws.append(draw.reshape(*lead, width))
        return torch.cat(draws, -1)


class SideBySide(Expandable):
    """Independent distributions of costs, side by side in the last dimension.

    :param parts: of event shapes [K_j] or [G, K_j].
    """

    support = real_costs

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts, self._sizes = parts, [part.event_shape[-1] for part in parts]
        shape = broadcast_shapes(*(part.batch_shape for part in parts))
        event_shape = torch.Size((*parts[0].event_shape[:-1], sum(self._sizes)))
        super().__init__(shape, event_shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of the log-densities, [...]."""
        pairs = zip(self.parts, value.split(self._sizes, -1), strict=True)
        return self._wide(sum(part.log_prob(own) for part, own in pairs))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        parts = [part.expand(self.batch_shape) for part in self.parts]
        return torch.cat([part.sample(sample_shape) for part in parts], -1)
