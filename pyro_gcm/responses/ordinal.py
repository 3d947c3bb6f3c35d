"""Ordered levels as a response: thresholds that are revenues of one order event."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.curve_outcome import OrderedLevel
from pyro_gcm.nets.members import gather_parameters
from pyro_gcm.nets.revenue_maps import PositiveLinear
from pyro_gcm.prediction.predictive import LevelPredictive
from pyro_gcm.responses.response import Response
from pyro_gcm.training.result import entropy

__all__ = ["Ordinal"]

#: Smallest distance between the shifts of neighbouring levels, so that each has some probability.
_LEAST = 1e-3


@recorded("models.Ordinal")
class Ordinal(Response, name="ordinal"):
    """Levels y in {0, 1, .., L-1}: Pr(y >= l | z, x, r) is the order event at threshold l.

    Every threshold lowers the revenues by an amount that is learned for each cost (and member), and
    that grows from level to level. So each cumulative probability is monotone in r, and they
    cannot cross (paper, Lemma 1). The prediction is the mean level.

    :param levels: number L of levels, at least 2.
    """

    predicts = "mean level"
    predictive = LevelPredictive
    log_likelihood_bound = 0.0

    def __init__(self, x_dim: int = 0, hidden: Any = 16, *, levels: int = 3) -> None:
        super().__init__()
        self.levels = positive_int("levels", levels, minimum=2)
        self.members = 0
        self.gaps: Any = None

    def check_generated(self) -> None:
        """Refuse thresholds that would be generated."""
        self.needs_gcm("its thresholds are revenues")

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Build the distances between the thresholds of these costs."""
        self.attach()
        self.members = model.members
        if self.levels > 2:
            self.gaps = PositiveLinear(self.levels - 2, model.map_shape(cost_shape))
            self.gaps.start_around(1.0, slice(None))

    def check_outcome(self, y: Tensor) -> None:
        """Whole numbers from 0 to L - 1."""
        strange = (y != y.round()) | (y < 0) | (y > self.levels - 1)
        if strange.any():
            raise ValueError(
                f"y must be a level from 0 to {self.levels - 1} for {self.levels} levels, got "
                f"{sorted(set(y[strange].tolist()))[:5]}; responses.Ordinal(levels=...) has "
                "more of them"
            )

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """That of the shares of the levels."""
        return entropy(y, share)

    def standardized(self, y: Tensor) -> Tensor:
        """Levels as numbers from -1 to 1."""
        return 2.0 * y / (self.levels - 1) - 1.0

    def shifts(self, covariates: Tensor) -> Tensor:
        """Return the shifts of the revenues by the thresholds 1 .. L-1, [L-1, ..., (G,) K]."""
        if self.levels == 2:
            return covariates.new_zeros(1, dtype=torch.float64)[:, None]
        gaps = self.gaps.weight.double() + _LEAST  # [(members,) (G,) K, L-2]
        if self.members:
            gaps = gather_parameters(gaps, covariates[..., : self.members])
        lowered = -gaps.cumsum(-1).movedim(-1, 0)
        return torch.cat([torch.zeros_like(lowered[:1]), lowered])

    def expected(self, p_y: OrderedLevel) -> Tensor:
        """The mean level, with gradients."""
        levels = [p_y.curve.at(shift).probabilities64()[1] for shift in p_y.shifts]
        return torch.stack(levels).sum(0)

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> OrderedLevel:
        """p(y | z, x, r)."""
        return OrderedLevel(event, self.shifts(x))
