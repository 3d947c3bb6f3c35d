"""Several outcomes side by side, each of costs of its own, some of which were not seen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.torch_state import in_transform
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import EventOutcome, Expandable, real_costs
from pyro_gcm.distributions.families import base_distribution, of_same_family, parameters_of
from pyro_gcm.distributions.order_event import OrderEvent


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


def split_columns(value: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """The columns [..., D] of each of several outcomes, [...] where it has one."""
    return [own[..., 0] if own.shape[-1] == 1 else own for own in value.split(list(widths), -1)]


def seen_of(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows [..., D] have no NaN, [...], and the columns with values of one of them in others.

    Those are legal values, so that what is computed from them, and then left out, is finite.
    """
    seen = ~columns.isnan().any(-1)
    if _may_not_ask(seen) or bool(seen.all()) or not bool(seen.any()):
        return seen, columns
    return seen, torch.where(seen[..., None], columns, columns[seen][0])


def _may_not_ask(seen: Tensor) -> bool:
    """Whether a step may not depend on values: under `torch.func`, where all have to be seen."""
    return in_transform() or seen.is_meta


class SeveralOutcomes(EventOutcome):
    """Outcomes side by side, independent given the latent variable; NaN was not seen.

    :param event: `OrderEvent` of all costs and all revenues.
    :param outcomes: what each of them makes of the event of its own costs.
    :param costs: number of costs of each, in order; they are the last dimension of the event.
    :param widths: number of columns of each, in order; a value has all of them, [..., D].
    """

    support = constraints.real_vector
    has_rows = False
    parts: list[Any]

    def __init__(
        self,
        event: OrderEvent,
        outcomes: Sequence[Callable[[OrderEvent], Any]],
        costs: Sequence[int],
        widths: Sequence[int],
    ) -> None:
        self.outcomes, self.costs, self.widths = outcomes, tuple(costs), tuple(widths)
        super().__init__(event, (sum(widths),), validate_args=False)

    def _depend_on(self, event: OrderEvent, cost: Tensor | None) -> torch.Size:
        ends = list(itertools.accumulate(self.costs, initial=0))
        self.parts = []
        for outcome, (start, stop) in zip(self.outcomes, itertools.pairwise(ends), strict=True):
            part = outcome(event_between(event, start, stop))
            self.parts.append(part if cost is None else part.given_cost(cost[..., start:stop]))
        own = super()._depend_on(event, cost)
        return broadcast_shapes(own, *(part.batch_shape for part in self.parts))

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of the log-probabilities or -densities of the outcomes that were seen, [...]."""
        total: Any = torch.zeros((), dtype=self.dtype, device=self.device)
        for part, seen, y in self._seen(value):
            if _may_not_ask(seen) or seen.all():
                total = total + part.log_prob(y)
            elif seen.any():
                total = total + torch.where(seen, part.log_prob(y), 0.0)
        return self._wide(total.expand(broadcast_shapes(total.shape, value.shape[:-1])))

    def _seen(self, value: Tensor) -> Iterator[tuple[Any, Tensor, Tensor]]:
        """Each outcome, the rows in which it was seen, and its columns, filled elsewhere."""
        for part, own in zip(self.parts, value.split(list(self.widths), -1), strict=True):
            seen, filled = seen_of(own)
            yield part, seen, filled[..., 0] if filled.shape[-1] == 1 else filled

    def cost_posterior(self, y: Tensor) -> SideBySide:
        """p(c | y): the costs of each outcome given that outcome, where it was seen."""
        posteriors: list[Any] = []
        for part, seen, own in self._seen(y):
            prior = part.event.cost
            if _may_not_ask(seen) or seen.all():
                posteriors.append(part.cost_posterior(own))
            elif seen.any():
                posteriors.append(WhereSeen(part.cost_posterior(own), prior, seen))
            else:
                posteriors.append(prior.expand(broadcast_shapes(prior.batch_shape, seen.shape)))
        return SideBySide(posteriors)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + (D,)`."""
        draws, lead = [], sample_shape + self.batch_shape
        for part, width in zip(self.parts, self.widths, strict=True):
            draw = part.expand(self.batch_shape).sample(sample_shape).double()
            draws.append(draw.reshape(*lead, width))
        return torch.cat(draws, -1)


class WhereSeen(Expandable):
    """Costs given an outcome in the rows in which it was seen, and their prior in others.

    :param posterior, prior: of one event shape; `seen`: [...].
    """

    support = real_costs

    def __init__(self, posterior: Any, prior: Any, seen: Tensor) -> None:
        self.posterior, self.prior, self.seen = posterior, prior, seen
        shape = broadcast_shapes(posterior.batch_shape, prior.batch_shape, seen.shape)
        super().__init__(shape, posterior.event_shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density of costs, [...]."""
        posterior, prior = self.posterior.log_prob(value), self.prior.log_prob(value)
        return self._wide(torch.where(self.seen, posterior, prior))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        posterior = self.posterior.expand(self.batch_shape).sample(sample_shape)
        prior = self.prior.expand(self.batch_shape).sample(sample_shape)
        return torch.where(self.seen[(..., *[None] * len(self.event_shape))], posterior, prior)


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
