"""Responses that are where an order event first occurs: times, and ordered levels (Lemma 1).

The revenue along which it occurs enters every cost through an increasing map, added to the map of
the others, so that the probability of the event is a distribution function, monotone in them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions.transforms import ExpTransform, Transform, identity_transform

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.validation import ArrayLike, as_tensor, positive, positive_int
from pyro_gcm.data.survival_times import SurvivalTimes, check_times
from pyro_gcm.distributions import EventTime, OrderedLevel, OrderEvent
from pyro_gcm.distributions.curve_outcome import LATEST
from pyro_gcm.distributions.event_curve import Axis
from pyro_gcm.distributions.products import coarse
from pyro_gcm.nets.members import gather_parameters
from pyro_gcm.nets.revenue_maps import AxisMap, PositiveLinear, Probit
from pyro_gcm.prediction.predictive import LevelPredictive, TimePredictive
from pyro_gcm.responses.response import Response
from pyro_gcm.training.result import entropy

#: What stands for the time 0 of a right-censored row, whose logarithm has to be finite.
_EARLIEST = 1e-300


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
        self.attach(model)
        self.event_dim = len(cost_shape)
        self.axis = AxisMap(model.map_shape(cost_shape), self.knots)

    def from_standard(self, standard: Tensor) -> Tensor:
        """y from its number of standard deviations above the mean."""
        return self.value(self.sign * standard)

    def position(self, y: Tensor) -> Tensor:
        """The position on the axis of y, float64."""
        loc, scale = self.standardizer.loc.double(), self.standardizer.scale.double()
        return self.sign * (self.transform(y) - loc) / scale

    def value(self, position: Tensor) -> Tensor:
        """y at a position."""
        loc, scale = self.standardizer.loc.double(), self.standardizer.scale.double()
        return self.transform.inv(loc + scale * (self.sign * position))

    def log_slope(self, y: Tensor) -> Tensor:
        """log of the size of the derivative of the position by y."""
        log_jacobian = self.transform.log_abs_det_jacobian(y, self.transform(y))
        return log_jacobian - self.standardizer.scale.double().log()

    def axis_of(self, covariates: Tensor) -> Axis:
        """Positions to the shifts of the revenues, for draws [..., B] of what is read of x."""
        weights = self.axis.weights()
        if self.members:
            weights = gather_parameters(weights, covariates[..., : self.members])
        return lambda position: self.axis.with_weights(weights, self.event_dim, position)


@recorded("models.Survival")
class Survival(AxisResponse, name="survival"):
    """The time of an event, any part of which may be censored: c < r with time among the revenues.

    Pr(T <= t | z, x, r) is the probability of the event at a standardised log t, which enters every
    cost through an increasing map onto the whole line: with one cost this is a transformation model
    (an accelerated failure time whose time axis is learned), and z makes it a mixture of them. The
    other revenues r can only bring the event forward. A cost that may be infinite (`p0`) is a cured
    fraction. y is a `data.SurvivalTimes`, or (lower, upper, entry) as a tensor [n, 3].

    The prediction is Pr(T <= horizon).

    :param time_map: "log", or an increasing torch transform from (0, inf) onto the whole line.
    :param horizon: a time, in the units of y; by default the median of the times in the training
        rows, censored or not.
    :param knots: bends of the map of the standardised log t.
    """

    predicts = "probability by the horizon"
    is_probability = True
    predictive = TimePredictive
    outcome_width = 3
    reference: Tensor

    def __init__(
        self,
        x_dim: int = 0,
        hidden: Any = 16,
        *,
        time_map: Any = "log",
        horizon: float | None = None,
        knots: int = 8,
    ) -> None:
        super().__init__(knots)
        self.transform = ExpTransform().inv if time_map == "log" else time_map
        ends = self.transform(torch.tensor([0.0, math.inf], dtype=torch.float64)).tolist()
        if ends != [-math.inf, math.inf]:
            raise ValueError(f"time_map must rise from -inf at time 0 to inf, got ends {ends}")
        self.horizon = None if horizon is None else positive("horizon", horizon)
        self.register_buffer("reference", torch.tensor(self.horizon or 1.0, dtype=torch.float64))

    def outcome(self, y: ArrayLike, device: torch.device | None = None) -> Tensor:
        """(lower, upper, entry), [n, 3] in float64.

        :raises TypeError: for anything else than `SurvivalTimes` or numbers.
        :raises ValueError: for impossible times.
        """
        if isinstance(y, SurvivalTimes):
            columns = y.columns()
        else:
            columns = as_tensor("y", y).double()
            if columns.shape[1:] != (3,) or not len(columns):
                wanted = "SurvivalTimes, or have shape [rows, 3] of (lower, upper, entry)"
                raise ValueError(f"y must be {wanted}, got shape {tuple(columns.shape)}")
            check_times(columns)
        unknown = (columns[:, 0] == 0.0) & columns[:, 1].isinf()
        columns = columns.index_put((unknown, torch.tensor(0)), columns.new_tensor(_EARLIEST))
        return columns.to(device)

    def learn_unit(self, y: Tensor) -> None:
        """Learn location and scale of the mapped times, the knots, and the horizon if it is open.

        An interval-censored row counts with both of its ends.
        """
        lower, upper = y[:, 0].double(), y[:, 1].double()
        known = (lower > _EARLIEST) & (lower < LATEST)
        times = torch.cat([lower[known], upper[(lower != upper) & ~upper.isinf()]])
        if not len(times):
            raise ValueError("y must have a time above 0")
        self.standardizer.learn(self.transform(times).unsqueeze(-1))
        if self.horizon is None:
            self.reference.copy_(times.median())
        self.axis.learn(self.position(times).unsqueeze(-1))

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """That of an exponential distribution."""
        lower, upper, entry = y.unbind(1)
        came = upper.isfinite()
        rate = share[came].sum() / (share @ torch.where(came, upper, lower))
        between = torch.log(-torch.expm1(rate * (lower - upper)))
        within = torch.where(lower == upper, rate.log(), between)
        log_p = float(share @ (within - rate * (lower - entry)))
        return -log_p if math.isfinite(log_p) else None

    def nothing_to_learn(self, low: Tensor, high: Tensor) -> str | None:
        """Where all times are equal, or none is known."""
        if low[1].isinf():
            return "y has no event: all rows are censored, and tell little of when events come"
        if low[0] == high[0] == low[1] == high[1]:
            return f"y has the same time in all rows, {low[0]:g}: there is nothing to learn"
        return None

    def initial_cured_fraction(self, y: Tensor) -> float:
        """Kaplan and Meier's estimate at the last event, from 0.05 to 0.9.

        The end of an interval, or before which the event occurred, counts as its time.
        """
        came = ~y[:, 1].isinf()
        order = torch.where(came, y[:, 1], y[:, 0]).argsort(stable=True)
        at_risk = torch.arange(len(y), 0, -1, dtype=torch.float64, device=y.device)
        # The last row, which would take the estimate to 0, says little.
        steps = torch.where(came[order], 1.0 - 1.0 / at_risk, 1.0)[:-1]
        return float(steps.prod().clamp(0.05, 0.9))

    def position(self, y: Tensor) -> Tensor:
        """The same of y on a grid: between neighbours a logarithm may fall."""
        return super().position(coarse(y))

    def standardized(self, y: Tensor) -> Tensor:
        """The position of the end that is known, of the lower one of two; the kind is not told."""
        lower, upper = y[..., 0].double(), y[..., 1].double()
        known = (lower > _EARLIEST) & (lower < LATEST)
        end = torch.where(known, lower, torch.where(upper.isinf(), 1.0, upper))
        return torch.where(known | ~upper.isinf(), self.position(end), 0.0)

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> EventTime:
        """p(lower, upper, entry | z, x, r)."""
        return EventTime(event, self.axis_of(x), self)

    def site_distribution(self, p_y: Any, *, separate: bool) -> Any:
        """Late entrants are given that they entered: on average over z, or for each z."""
        return p_y if separate else p_y.over_draws()

    def log_selected(self, p_y: Any, y: Tensor) -> Tensor | None:
        """log Pr(T > entry | z), by which z is more or less likely among those who entered."""
        late = (y[..., 2] > 0.0).any()
        return p_y.log_survival(y[..., 2]) if late else None

    def check_latent(self, model: Any, y: Tensor) -> None:
        """Delayed entry needs draws of z from p(z|x) that are equally likely."""
        if (y[:, 2] > 0.0).any() and not model.draws_equally:
            raise ValueError(
                "y has entries above 0, which need z drawn from p(z|x) with equal weights: use "
                "members with uniform weights, or a continuous prior with guide='prior'"
            )

    def event_named(self, name: str | None) -> str:
        """That it came by the horizon."""
        return f"{name or 'T'} <= {self.reference.item():.4g}"

    def columns_of(self, y: Tensor) -> dict[str, Tensor]:
        """lower, upper and entry."""
        return dict(zip(("lower", "upper", "entry"), y.unbind(-1), strict=True))

    def drawn(self, y: Tensor) -> Tensor:
        """Times, which are exact in a draw; inf where the event never comes."""
        return y[..., 1]

    def derived(self, p_y: Any, cost: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """t, the time of the event that known costs lead to; inf where it never comes."""
        return {"t": p_y.drawn(cost)[..., 1]}

    def expected(self, p_y: EventTime) -> Tensor:
        """Pr(T <= horizon | z), with gradients."""
        shift, _ = p_y.axis(self.position(self.reference.reshape(1)))
        return p_y.curve.at(shift).probabilities64()[1]

    def predict(self, p_y: EventTime) -> Tensor:
        """Pr(T <= horizon | z)."""
        shift, _ = p_y.axis(self.position(self.reference.reshape(1)))
        return p_y.curve.probability(shift)


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
    needs_gcm = "its thresholds are revenues"

    def __init__(self, x_dim: int = 0, hidden: Any = 16, *, levels: int = 3) -> None:
        super().__init__()
        self.levels = positive_int("levels", levels, minimum=2)
        self.gaps: Any = None

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Build the distances between the thresholds of these costs."""
        self.attach(model)
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
        gaps = self.gaps.weight.double() + 1e-3  # [(members,) (G,) K, L-2], so that none is 0
        if self.members:
            gaps = gather_parameters(gaps, covariates[..., : self.members])
        lowered = -gaps.cumsum(-1).movedim(-1, 0)
        return torch.cat([torch.zeros_like(lowered[:1]), lowered])

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> OrderedLevel:
        """p(y | z, x, r)."""
        return OrderedLevel(event, self.shifts(x))
