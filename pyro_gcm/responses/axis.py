"""Responses that are where an order event first occurs along one more revenue (paper, Lemma 1).

The revenue is a time, or minus a threshold of y. It enters every cost through an increasing map
that runs from -inf to inf, added to the map of the other revenues, so that the probability of the
event is a distribution function along it, monotone in the other revenues.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions.transforms import Transform, identity_transform

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.distributions import AlongAxis, OrderEvent
from pyro_gcm.distributions.curve_outcome import AxisUnits
from pyro_gcm.distributions.event_curve import Axis
from pyro_gcm.nets.members import gather_parameters
from pyro_gcm.nets.revenue_maps import AxisMap, AxisOfDraws, Probit
from pyro_gcm.prediction.predictive import DistributionPredictive
from pyro_gcm.responses.real import RealOutcome
from pyro_gcm.responses.response import Response

#: Numbers of costs that are evaluated at once.
_AT_ONCE = 1 << 16
#: Panels of three thresholds each of the sum that is the mean.
_PANELS = 32


class AxisResponse(Response):
    """The base of these responses: units of y, and a map of the axis for each cost and member.

    :param knots: bends of the map, see `nets.AxisMap`.
    """

    #: What y is standardised after, and whether its position rises with it (1.0) or falls (-1.0).
    transform: Transform = identity_transform
    sign = 1.0
    needs_gcm = "its axis is a revenue"

    def __init__(self, knots: int) -> None:
        super().__init__()
        self.knots = positive_int("knots", knots, minimum=0)
        self.members = 0
        self.axis: Any = None
        self.standardizer = Standardizer(1)

    def check_r_dim(self, r_dim: int) -> None:
        """Any number: the axis is a revenue of its own."""

    def check_parts(self, revenue_map: Any, p0: Any) -> None:
        """Refuse a map of r with infinite values, at which the axis could not move the event."""
        if isinstance(revenue_map, Probit) or revenue_map == "probit":
            raise ValueError(
                "revenue_map='probit' gives infinite values, at which "
                f"response={self.named!r} would have no proper distribution"
            )

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Build the map for these costs."""
        self.attach()
        self.members, self.event_dim = model.members, len(cost_shape)
        self.axis = AxisMap(model.map_shape(cost_shape), self.knots)

    def from_standard(self, standard: Tensor) -> Tensor:
        """y from its number of standard deviations above the mean."""
        return self._value(self.sign * standard)

    def _position(self, y: Tensor) -> Tensor:
        loc, scale = self.standardizer.loc.double(), self.standardizer.scale.double()
        return self.sign * (self.transform(y) - loc) / scale

    def _value(self, position: Tensor) -> Tensor:
        loc, scale = self.standardizer.loc.double(), self.standardizer.scale.double()
        return self.transform.inv(loc + scale * (self.sign * position))

    def _log_slope(self, y: Tensor) -> Tensor:
        log_jacobian = self.transform.log_abs_det_jacobian(y, self.transform(y))
        return log_jacobian - self.standardizer.scale.double().log()

    @property
    def units(self) -> AxisUnits:
        """Values of y and positions on the axis."""
        return AxisUnits(self._position, self._value, self._log_slope)

    def axis_of(self, covariates: Tensor) -> Axis:
        """Positions to the shifts of the revenues, for draws [..., B] of what is read of x."""
        weights = self.axis.weights()
        if self.members:
            weights = gather_parameters(weights, covariates[..., : self.members])
        return AxisOfDraws(self.axis, weights, self.event_dim)


@recorded("models.WholeDistribution")
class WholeDistribution(RealOutcome, AxisResponse, name="distribution"):
    """A real y whose whole distribution is the order event at [-t, r] (paper, Lemma 1).

    1 - F(t | z, x, r) is the probability of the event once -t has been added to the revenues by its
    own map. y is stochastically ordered in r, so that its quantiles cannot cross and rise with r.
    Nothing is assumed of its shape. The prediction is its mean, over the range of the training rows
    with a tenth of it and a standard deviation on each side: a sum over thresholds that lie as
    dense as the training rows.

    :param knots: bends of the map of -t.
    """

    predicts = "mean"
    predictive = DistributionPredictive
    sign = -1.0
    ends: Tensor
    thresholds: Tensor
    steps: Tensor

    def __init__(self, x_dim: int = 0, hidden: Any = 16, *, knots: int = 8) -> None:
        super().__init__(knots)
        for name in ("ends", "thresholds", "steps"):
            self.register_buffer(name, torch.zeros(0))
        self._place_thresholds(torch.special.ndtri(torch.linspace(1e-4, 1.0 - 1e-4, 200).double()))

    def _place_thresholds(self, positions: Tensor) -> None:
        """Three nodes on each of the panels between quantiles of rows [n], and beyond them.

        The panels of the outer tenths grow geometrically, so that outliers need only a few.
        """
        panels, rows = _PANELS, positions.double()
        outer = panels // 4
        shares = torch.linspace(0.1, 0.9, panels - 2 * outer + 1, dtype=torch.float64)
        inner = rows.quantile(shares.to(rows.device))
        margin = 0.1 * (rows.max() - rows.min()) + 1.0
        step = (inner[-1] - inner[0]) / len(inner) + 1e-9
        growth = torch.linspace(0.0, 1.0, outer, dtype=torch.float64, device=rows.device)
        below, above = inner[0] - rows.min() + margin, rows.max() + margin - inner[-1]
        low, high = (step * (reach / step).pow(growth) for reach in (below, above))
        cuts = torch.cat([(inner[0] - low).flip(0), inner, inner[-1] + high])
        half = 0.5 * cuts.diff().unsqueeze(-1)
        nodes = half.new_tensor([-math.sqrt(0.6), 0.0, math.sqrt(0.6)])
        weights = half.new_tensor([5.0, 8.0, 5.0]) / 9.0
        self.ends = torch.stack([cuts[0], cuts[-1]]).to(self.ends.device)
        self.thresholds = (cuts[:-1, None] + half * (1.0 + nodes)).flatten().to(self.ends.device)
        self.steps = (half * weights).flatten().to(self.ends.device)

    def check_parts(self, revenue_map: Any, p0: Any) -> None:
        """Check the parts as `AxisResponse` does, and refuse infinite costs."""
        super().check_parts(revenue_map, p0)
        if p0 is not None:
            raise ValueError(
                "p0 must be left out with response='distribution': a cost that may be infinite "
                "would leave y at -inf with that probability"
            )

    def learn_unit(self, y: Tensor) -> None:
        """Learn mean, standard deviation, range, and the knots of the map."""
        self.standardizer.learn(y.unsqueeze(-1))
        position = self._position(y.double())
        self._place_thresholds(position)
        self.axis.learn(position.unsqueeze(-1))

    def standardized(self, y: Tensor) -> Tensor:
        """y less its mean, over its standard deviation."""
        return -self._position(y.double())

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> AlongAxis:
        """y in its units."""
        return AlongAxis(event, self.axis_of(x), self.units)

    def expected(self, p_y: AlongAxis) -> Tensor:
        """The mean of y within its range, with gradients."""
        at = self.thresholds.double().reshape(-1, *(1 for _ in p_y.batch_shape))
        chance = p_y.curve.at(p_y.axis(at)[0]).probabilities64()[1]
        return self._above_lowest(torch.tensordot(self.steps.double(), chance, 1))

    def predict(self, p_y: AlongAxis) -> Tensor:
        """The mean of y within its range: the lowest value and the sum of Pr(y > t) dt above it."""
        event, above = p_y.event, torch.zeros((), dtype=torch.float64)
        many = max(1, _AT_ONCE // math.prod((*event.batch_shape, *event.cost_shape)))
        for some, steps in zip(self.thresholds.split(many), self.steps.split(many), strict=True):
            at = some.double().reshape(-1, *(1 for _ in event.batch_shape))
            chances = p_y.curve.probability(p_y.axis, at)
            for chance, step in zip(chances, steps.double(), strict=True):
                above = above + step * chance
        return self._above_lowest(above)

    def _above_lowest(self, above: Tensor) -> Tensor:
        return self._value(self.ends[1].double()) + self.standardizer.scale.double() * above
