"""Competing risks: the first of several events, each with a latent time of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.prediction.incidence import CELLS, CausePredictive, incidences
from pyro_gcm.prediction.predictive import AT_ONCE
from pyro_gcm.responses.axis import Survival
from pyro_gcm.responses.classes import order_of
from pyro_gcm.responses.response import MakeMap
from pyro_gcm.responses.several import Several

#: How far from the mean, in standard deviations of log t, the blocks of times go, and up to where
#: they are of about the same length.
_FAR, _CENTRE = 20.0, 2.0
#: Length of a block times the steepness of a cost, of short ones.
_SHORT = 0.75


@recorded("models.CompetingRisks")
class CompetingRisks(Several):
    """The time of the first of several events, and which one it was: causes of death, say.

    Every cause has a latent time T_k, as `Survival` has it, and all share z; given z they are
    independent, so that z carries what makes them depend on each other. The first to come is seen,
    with its cause, and of the others only that they had not come by then::

        y = SurvivalTimes.competing(time, cause)     # cause 0 where none had come
        model = MemberGCM(x_dim, 2, response=CompetingRisks(["relapse", "death"], {"death": [1, 0],
                          "relapse": [0, -1]}))
        fit(model, x, r, y)
        model.predictive(x, r).incidence(times)      # Pr(T <= t, cause k), [B, T, K]

    A revenue that hastens cause k alone raises the incidence of k and lowers that of every other
    cause at every t, for all rows; so does one that delays another cause as well where there are
    two. Of one that hastens, or delays, several causes only Pr(T > t) is ordered. The hazards of a
    population are not ordered by any.

    The prediction is the incidence of the first cause by the horizon.

    :param causes: their names, or numbers, of which `SurvivalTimes.competing` has the times.
    :param directions: by cause, +1 (hastens), -1 (delays) or 0 for every revenue; those of a cause
        that is left out are +1.
    :param horizon: a time, in the units of y; by default the median of the times of training rows.
    :param knots: bends of the map of the standardised log t, of each cause.
    :param nodes: times at which the latent times are evaluated: with 1,024 incidences are right to
        1e-10 or so, unless latent times given z are so steep that `prediction.incidence` leaves out
        its correction; then the error falls with the square of their number.
    """

    predictive = CausePredictive
    is_probability = True
    predicts = "incidence by the horizon"

    def __init__(
        self,
        causes: Sequence[Any],
        directions: Mapping[Any, Sequence[int]] | None = None,
        *,
        horizon: float | None = None,
        knots: int = 8,
        nodes: int = 1024,
    ) -> None:
        names = [] if isinstance(causes, str) else [str(cause) for cause in causes]
        if len({*names}) < max(2, len(names)):
            raise ValueError(f"causes must be two or more different names, got {causes!r}")
        parts = {name: Survival(horizon=horizon, knots=knots) for name in names}
        super().__init__(parts, {str(cause): own for cause, own in (directions or {}).items()})
        self.nodes = positive_int("nodes", nodes, minimum=CELLS)

    def revenue_maps(self, make: MakeMap, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """A map for every cause; predictions rise with what speaks for the first one alone."""
        maps = super().revenue_maps(make, r_dim, shape)
        self.directions = [order_of(column, 0) for column in zip(*self.rows, strict=True)]
        return maps

    def incidences(self, p_y: Any, times: Tensor) -> Iterator[Tensor]:
        """CIF_k of all causes and S at rising times [T], of each [K + 1, ..., N, b]."""
        shape, first = p_y.batch_shape, self.parts[0]
        at_once = max(1, AT_ONCE // (shape.numel() * self.costs))

        def rows_of(positions: Tensor) -> Tensor:
            return first.value(positions).reshape(*positions.shape, *(1 for _ in shape))

        def cdfs(at: Tensor) -> list[Tensor]:
            return [part.cdf(rows_of(at)).expand(len(at), *shape) for part in p_y.parts]

        def short(low: Tensor, high: Tensor) -> Tensor:
            times = rows_of(torch.stack([low, 0.5 * (low + high), high]))
            found = [_is_short(part, times).expand(len(low), *shape) for part in p_y.parts]
            return torch.stack(found).all(0)

        half = math.asinh(_FAR / _CENTRE)
        blocks = torch.linspace(-half, half, self.nodes // CELLS + 1, dtype=torch.float64)
        edges = (_CENTRE * blocks.sinh()).to(times.device)
        return incidences(cdfs, short, edges, first.position(times), at_once)

    def predict(self, p_y: Any) -> Tensor:
        """The incidence of the first cause by the horizon, float64."""
        return next(self.incidences(p_y, self.parts[0].reference.reshape(1)))[0]

    def event_named(self, name: str | None) -> str:
        """That the first cause came first, by the horizon."""
        return f"{self.names[0]} by {self.parts[0].reference.item():.4g}"


def _is_short(part: Any, times: Tensor) -> Tensor:
    """Whether blocks are short beside the spread of a latent time, whatever the revenues, [E, ...].

    Then the derivative of the polynomial through its distribution function is positive at the
    nodes, for up to three alternatives of three costs of a built-in family.

    :param times: lower ends, middles and upper ends of the blocks, [3, E, ...].
    """
    event, axis, at = part.curve.event, part.units.axis, part.units.position(times)
    width = at[2] - at[0]
    if event.standard is None:
        return torch.zeros_like(width, dtype=torch.bool)
    costs = range(-event.cost_event_dim, 0)
    steepness = (part.axis(at)[1] / event.base_dist.scale).amax((0, *costs))
    bends = torch.hypot(at[1][..., None] - axis.knots, math.pi * axis.widths)
    return (width * steepness < _SHORT) & (width[..., None] < bends).all(-1)
