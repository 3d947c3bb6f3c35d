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
from pyro_gcm.prediction.base_samples import row_blocks
from pyro_gcm.prediction.draws import Draws
from pyro_gcm.prediction.predicted import FixedNoise, Predicted, Replayed


def outcome_values(response: Any, p_y: Any, rows: slice) -> Tensor:
    """Predictions [..., N, b] given each draw, for some rows of a block.

    :param p_y: distribution of the outcome, of batch shape [..., N, rows of the block].
    """
    event = getattr(p_y, "event", p_y)
    alone = isinstance(event, OrderEvent) and event.base_dist is not None and is_separable(event)
    read = response.reader(p_y, rows if alone else ALL)
    if read is None or not isinstance(event, OrderEvent) or event.base_dist is None:
        found: Tensor = response.predict(p_y)
        return found[..., rows]
    with elementwise():
        values: Tensor = read(planes_of(event, rows if alone else ALL))
    return values if alone else values[..., rows]


def row_predictions(
    model: Any, x: Tensor, r: Tensor, noise: FixedNoise
) -> Iterator[tuple[slice, Tensor, Draws]]:
    """Predictions [N, b] for consecutive rows of x and r: where they stand, and their draws."""
    plan = model.prediction_plan
    for place, (x_block, r_block) in row_blocks(x, r, draws=noise.count):
        draws = Predicted(model, plan, noise).read(x_block, r_block)
        rows = slice(0, place.stop - place.start)
        yield place, outcome_values(model.response, draws.p_y, rows), draws


class MovingRevenues:
    """Predictions of a block at one set of revenues after another.

    A coordinate whose revenues stay as they were is not computed again. A story other than the
    library's is read anew, with the same draws.

    :param x, r: rows [b, x_dim] and [b, r_dim] of the block.
    """

    def __init__(self, model: Any, noise: FixedNoise, x: Tensor, r: Tensor) -> None:
        self.model, self.x = model, x
        self.draws = Predicted(model, model.prediction_plan, noise).read(x, r)
        self.p_y = self.draws.p_y
        self._read = None
        if model.tells_the_figure and is_separable(self.p_y_event):
            self._read = model.response.reader(self.p_y, ALL)
        self._cost: CostPlanes | None = None
        self._known: dict[int, tuple[Tensor, Factor]] = {}

    @property
    def p_y_event(self) -> Any:
        """The order event of the outcome."""
        return getattr(self.p_y, "event", self.p_y)

    def __call__(self, r: Tensor) -> Tensor:
        """Predictions [b] at revenues r [b, r_dim]."""
        model, draws = self.model, self.draws
        if self._read is None:
            known = draws.left if model.tells_the_figure else None
            replayed = Replayed(model, model.prediction_plan, draws.values, known).read(self.x, r)
            return draws.mean(outcome_values(model.response, replayed.p_y, ALL))
        e = draws.values.get("e", self.x)  # what a member's map is chosen by
        revenues = model.revenue_of(e, model.mapped(r))
        event = OrderEvent(self.p_y_event.cost, revenues)
        cost = self._cost = self._cost or cost_planes(event)

        def factors(logarithms: bool) -> Iterator[Factor]:
            for k, value in enumerate(planes(revenues, cost.event_shape)):
                yield self._factor(cost, k, value, logarithms)

        values = self._read(EventPlanes(cost, factors, event.log_probs64))
        return draws.mean(values)

    def _factor(self, cost: CostPlanes, k: int, value: Tensor, logarithm: bool) -> Factor:
        """A copy of the factor, which may be overwritten."""
        if k not in self._known or not torch.equal(value, self._known[k][0]):
            self._known[k] = value, cost.factor(k, value, logarithm)
        below, log_below = self._known[k][1]
        return Factor(below.clone(), None if log_below is None else log_below.clone())
