"""Predictions for one block of rows of x, given each draw of its latent variables.

Networks see whole blocks, padded if need be, because a matrix product of another shape rounds
differently. What follows them is computed for the rows that were asked for alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.event_planes import (
    ALL,
    CostPlanes,
    EventPlanes,
    Factor,
    cost_planes,
    elementwise,
    is_separable,
    planes,
    planes_of,
)
from pyro_gcm.sampling.base_samples import pairwise_mean, row_blocks
from pyro_gcm.sampling.draws import Draws


def event_values(response: Any, event: OrderEvent, covariates: Tensor, rows: slice) -> Tensor:
    """Predictions [..., N, b] given each draw, for some rows of a block.

    :param event: the order event, of batch shape [..., N, rows of the block].
    :param covariates: standardised, [(N,) rows of the block, x_dim].
    """
    alone = is_separable(event)
    read = response.reader(covariates, rows if alone else ALL)
    if read is None:
        return response.predict(event, covariates)[..., rows]
    with elementwise():
        values: Tensor = read(planes_of(event, rows if alone else ALL))
    return values if alone else values[..., rows]


def mean_over_draws(values: Tensor, draws: Draws, rows: slice) -> Tensor:
    """Weighted mean [..., b] of values [..., N, b]."""
    first = values.movedim(-2, 0)
    if draws.log_weights is None:
        return pairwise_mean(first)
    weights = draws.log_weights[:, rows].exp()
    return pairwise_mean(first, weights.reshape(len(weights), *(1,) * (first.dim() - 2), -1))


def row_predictions(
    objective: Any, x: Tensor, r: Tensor, base: Tensor
) -> Iterator[tuple[slice, Tensor, Draws]]:
    """Predictions [N, b] for consecutive rows of x and r: where they stand, and their draws.

    :param objective: the `Objective` that predictions follow.
    :param base: base samples [N, 1, E].
    """
    model = objective.model
    for place, (x_block, r_block) in row_blocks(x, r, draws=len(base)):
        draws = objective.given_revenue(objective.draw(x_block, base, model.seed), r_block)
        rows = slice(0, place.stop - place.start)
        yield place, event_values(model.response, draws.event, draws.covariates, rows), draws


class MovingRevenues:
    """Predictions of a block at one set of revenues after another.

    A coordinate whose revenues stay as they were is not computed again.
    """

    def __init__(self, response: Any, draws: Draws) -> None:
        self.response, self.draws = response, draws
        self._read = response.reader(draws.covariates, ALL)
        self._cost: CostPlanes | None = None
        self._known: dict[int, tuple[Tensor, Factor]] = {}

    def __call__(self, revenues: Tensor) -> Tensor:
        """Predictions [b] at mapped revenues [b, (G,) K]."""
        event, draws = OrderEvent(self.draws.cost, revenues), self.draws
        if self._read is None or not is_separable(event):
            values = event_values(self.response, event, draws.covariates, ALL)
        else:
            cost = self._cost = self._cost or cost_planes(event)

            def factors(logarithms: bool) -> Iterator[Factor]:
                for k, value in enumerate(planes(revenues, cost.event_shape)):
                    yield self._factor(cost, k, value, logarithms)

            values = self._read(EventPlanes(cost, factors, event.log_probs64))
        return mean_over_draws(values, draws, ALL)

    def _factor(self, cost: CostPlanes, k: int, value: Tensor, logarithm: bool) -> Factor:
        """A copy of the factor, which may be overwritten."""
        if k not in self._known or not torch.equal(value, self._known[k][0]):
            self._known[k] = value, cost.factor(k, value, logarithm)
        below, log_below = self._known[k][1]
        return Factor(below.clone(), None if log_below is None else log_below.clone())
