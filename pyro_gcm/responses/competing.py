"""Competing risks: the first of several events, each with a latent time of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.prediction.incidence import CausePredictive, incidences
from pyro_gcm.prediction.predictive import AT_ONCE
from pyro_gcm.responses.axis import Survival
from pyro_gcm.responses.several import Several

#: How far from the mean, in standard deviations of log t, the grid of times goes.
_FAR = 10.0


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

    :param causes: their names, of which `SurvivalTimes.competing` has the times.
    :param directions: by cause, +1 (hastens), -1 (delays) or 0 for every revenue; those of a cause
        that is left out are +1.
    :param horizon: a time, in the units of y; by default the median of the times of training rows.
    :param knots: bends of the map of the standardised log t, of each cause.
    :param nodes: times of the grid of `prediction.incidence`, of which errors are about
        1e-6 of 1, and fall as its square.
    """

    predictive = CausePredictive
    is_probability = True
    predicts = "incidence by the horizon"
    nodes: Tensor

    def __init__(
        self,
        causes: Sequence[str],
        directions: Mapping[str, Sequence[int]] | None = None,
        *,
        horizon: float | None = None,
        knots: int = 8,
        nodes: int = 1024,
    ) -> None:
        if isinstance(causes, str) or len({*causes}) < max(2, len(causes)):
            raise ValueError(f"causes must be two or more different names, got {causes!r}")
        parts = {str(cause): Survival(horizon=horizon, knots=knots) for cause in causes}
        super().__init__(parts, directions)
        self.count = positive_int("nodes", nodes, minimum=8)
        self.register_buffer("nodes", torch.ones(self.count, dtype=torch.float64))

    def learn_unit(self, y: Tensor) -> None:
        """Learn the units of the times, and the grid: half at quantiles of times, half evenly."""
        super().learn_unit(y)
        first = self.parts[0]
        lower = y[:, 0].double()
        known = first.position(lower[lower > 0.0])
        half = self.count // 2
        shares = torch.linspace(0.0, 1.0, half, dtype=torch.float64, device=y.device)
        even = torch.linspace(-_FAR, _FAR, self.count - half, dtype=torch.float64, device=y.device)
        places = torch.cat([known.quantile(shares), even]).sort().values
        self.nodes.copy_(first.value(places))

    def incidences(self, p_y: Any, times: Tensor) -> Iterator[Tensor]:
        """CIF_k of all causes and S at rising times [T], of each [K + 1, ..., N, b]."""
        shape = p_y.batch_shape
        at_once = max(1, AT_ONCE // (shape.numel() * self.costs))

        def cdfs(at: Tensor) -> list[Tensor]:
            every = at.reshape(-1, *(1 for _ in shape))
            return [part.cdf(every).expand(len(at), *shape) for part in p_y.parts]

        return incidences(cdfs, self.nodes, times, at_once)

    def predict(self, p_y: Any) -> Tensor:
        """The incidence of the first cause by the horizon, float64."""
        return next(self.incidences(p_y, self.parts[0].reference.reshape(1)))[0]

    def event_named(self, name: str | None) -> str:
        """That the first cause came first, by the horizon."""
        return f"{self.names[0]} by {self.parts[0].reference.item():.4g}"

    def check_rises_in(self, revenue: int) -> None:
        """Refuse revenues in which the incidence of the first cause need not rise."""
        own, *others = (rows[revenue] for rows in self.rows)
        if own < 0 or max(others) > 0:
            raise ValueError(
                f"revenue {revenue} must be one that hastens {self.names[0]!r} or delays others, "
                f"got directions {[own, *others]} of {self.names}"
            )
