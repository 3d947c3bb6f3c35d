"""Predictions of a model whose revenues enter y alone: the revenue that it takes, and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.options import number, share
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    matrix,
    positive,
    positive_int,
    same_rows,
    vector,
)
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.bisection import smallest_reaching
from pyro_gcm.distributions.event_planes import (
    ALL,
    CostPlanes,
    EventPlanes,
    Factor,
    cost_planes,
    is_separable,
    planes,
)
from pyro_gcm.models.distribution_predictions import (
    LEVELS,
    DistributionPredictions,
    integral,
    quantiles,
)
from pyro_gcm.models.predictions import Count, prediction
from pyro_gcm.models.surfaces import strict_surface
from pyro_gcm.prediction.base_samples import in_blocks
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.predicted import FixedNoise, Predicted


class StrictPredictions(DistributionPredictions):
    """A model with what follows from a prediction that rises with every revenue."""

    def surface_blocks(
        self, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
    ) -> Iterator[Tensor]:
        """Blocks [b, R] of `surface` after the checks; x is encoded once for all revenues."""
        if not self.tells_the_figure:
            return super().surface_blocks(x, revenues, noise, memory)
        return strict_surface(self, x, revenues, noise, memory)

    def response_model(self, name: str) -> Any:
        """This model with one of `responses.Several` responses, for its predictions.

        It shares all weights with this one, and predicts; it is neither trained nor saved.

        :param name: of the response.
        :raises ValueError: for another name, and for a model with one response.
        """
        return self.response.model_of(self, name)

    @property
    def tells_the_figure(self) -> bool:
        """Whether r enters y alone, through its map, so that predictions need not be read anew."""
        return not self.overrides("story", "y_dist")

    @prediction
    def required_revenue(
        self,
        x: ArrayLike,
        level: float = 0.9,
        *,
        revenue: int = 0,
        r: ArrayLike | None = None,
        num_samples: Count = None,
    ) -> Tensor:
        """The smallest value of one revenue at which the prediction reaches a level, [B].

        The cheapest bid that wins with probability 0.9, the smallest dose that half of the patients
        respond to. It is found by evaluating `predict`, and is in data units.

        :param x: [B, x_dim] in data units.
        :param level: of the prediction: a probability, or a value of y.
        :param revenue: index of the revenue that is searched for.
        :param r: the other revenues, [B, r_dim - 1] or [r_dim - 1] in the order of the columns, or
            with a column of NaN for the one that is searched for, [B, r_dim] or [r_dim]; their
            training means by default.
        :returns: inf where no revenue reaches the level, -inf where every revenue does (within
            2^20 standard deviations of the training data).
        :raises ValueError: for a revenue index out of range, a number in `r` in place of the
            revenue that is searched for, and for quantile levels.
        """
        noise = self.noise(num_samples)
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        if self.response.is_probability:
            share("level", level, "a probability")
        level = number("level", level)
        revenue = positive_int("revenue", revenue, minimum=0)
        if revenue >= self.r_dim:
            raise ValueError(
                f"revenue index out of range: it must be below r_dim={self.r_dim}, got {revenue}"
            )
        self.response.check_rises_in(revenue)
        loc, scale = self.r_standardizer.loc.double(), self.r_standardizer.scale.double()
        rows = _with_start(r, len(x), revenue, loc)
        same_rows(x=x, r=rows)
        column = torch.tensor([revenue], device=rows.device)
        # As the prediction at the result will be.
        rounded = self.response.prediction_dtype(self.dtype)

        def block(x: Tensor, r: Tensor) -> Tensor:
            # Costs do not depend on r, nor do weights of the draws where nothing is missing.
            predictions = MovingRevenues(self, noise, x, r)

            def prediction(value: Tensor) -> Tensor:
                return predictions(r.index_copy(1, column, value[:, None])).to(rounded).double()

            start, step = (unit[revenue].expand(len(x)) for unit in (loc, scale))
            dtype = torch.promote_types(self.dtype, self.r_standardizer.loc.dtype)
            return smallest_reaching(prediction, level, start, step, dtype)

        return in_blocks(block, x, rows, draws=noise.count)

    # Of the time of an event, for response "survival"

    @prediction
    def predict_survival(
        self, x: ArrayLike, r: ArrayLike, times: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """Pr(T > t | x, r) at times, [B, T], for response "survival".

        It falls in the times and in every column of r. It is 1 minus a probability, 0 below 1e-16;
        `log_prob` of right-censored times has the digits of the tail.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        :param times: [T], at least 0, in the units of y.
        """
        at = self._times("predict_survival", times)

        def block(draws: Draws, rows: Rows) -> Tensor:
            every = at[:, None].expand(-1, len(rows.x))
            return 1.0 - self._cdf_of(draws, rows)(every).T

        return self.by_blocks(block, num_samples, self.rows(x, r))

    @prediction
    def hazard(
        self, x: ArrayLike, r: ArrayLike, times: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """The density of T at times over Pr(T > t), [B, T], in 1 / unit of y.

        :param times: [T], above 0.
        """
        at = self._times("hazard", times)
        if (at <= 0.0).any():
            raise ValueError(f"times must be above 0 for a hazard, got {at.min().item():g}")

        def block(draws: Draws, rows: Rows) -> Tensor:
            p_y = draws.p_y
            found = []
            for t in at:
                exact = torch.stack([t, t, torch.zeros_like(t)]).expand(len(rows.x), 3)
                log_f, log_s = p_y.log_prob(exact).double(), p_y.log_survival(exact[:, 0])
                found.append(draws.log_mean(log_f) - draws.log_mean(log_s))
            return torch.stack(found, -1).exp()

        return self.by_blocks(block, num_samples, self.rows(x, r))

    @prediction
    def cured_fraction(self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None) -> Tensor:
        """Pr(T = inf | x, r), [B], that the event never comes: 0 for a model without `p0`.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim], which does not change it.
        """
        self._check_times("cured_fraction")

        def block(draws: Draws, rows: Rows) -> Tensor:
            event, shape = draws.p_y.event, (draws.num_draws, len(rows.x))
            if event.logits is None:
                return torch.zeros(shape[1], dtype=torch.float64, device=rows.x.device)
            never = logsigmoid(event.logits.double())
            if event.cost_event_dim == 2:
                never = never.sum(-1)
            return draws.mean(never.exp().expand(shape))

        return self.by_blocks(block, num_samples, self.rows(x, r))

    @prediction
    def restricted_mean(
        self, x: ArrayLike, r: ArrayLike, horizon: float, *, num_samples: Count = None
    ) -> Tensor:
        """The mean of min(T, horizon), [B]: the area under the survival curve up to the horizon.

        :param horizon: a time above 0, in the units of y.
        """
        self._check_times("restricted_mean")
        end = positive("horizon", horizon)

        def block(draws: Draws, rows: Rows) -> Tensor:
            cdf = self._cdf_of(draws, rows)
            last = torch.full((len(rows.x),), end, dtype=torch.float64, device=rows.x.device)
            by_then = cdf(last)
            levels = torch.tensor(LEVELS, dtype=torch.float64, device=last.device)[:, None]
            knots = quantiles(self.response, cdf, levels * by_then).clamp(max=end)
            # Before the first of them nearly nobody has had the event. Later, by the position.
            units = self.response.units
            positions = [units.position(t) for t in (*knots, last)]

            def speed(position: Tensor) -> Tensor:
                t = units.value(position)
                return (1.0 - cdf(t)) / units.log_slope(t).exp()

            return knots[0] + integral(speed, torch.stack(positions))

        return self.by_blocks(block, num_samples, self.rows(x, r), torch.float64)

    def _check_times(self, method: str) -> None:
        if not self.response.is_censored:
            raise ValueError(f"{method} needs response='survival', got {self._named}")

    def _times(self, method: str, times: ArrayLike) -> Tensor:
        self._check_times(method)
        at = vector("times", times, self.device).double()
        if (at < 0.0).any():
            raise ValueError(f"times must be at least 0, got {at.min().item():g}")
        return at


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
            p_y = Predicted(model, model.prediction_plan, known=draws.values).read(self.x, r).p_y
            return draws.mean(model.response.values(p_y, ALL))
        # A member's map is chosen by e.
        revenues = model.mapped(r, draws.values.get("e", self.x))
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


def _with_start(r: ArrayLike | None, count: int, revenue: int, loc: Tensor) -> Tensor:
    """Revenues [B, m] with the training mean in the column that is searched for."""
    if r is None:
        return loc.expand(count, -1)
    size = len(loc)
    rows: Any = as_tensor("r", r, loc.device).double()
    if rows.dim() == 1:
        if len(rows) not in (size - 1, size):
            raise ValueError(f"r must have {size - 1} or {size} values, got {len(rows)}")
        rows = rows.expand(count, -1)
    if rows.dim() == 2 and rows.shape[1] == size - 1:
        start = loc[revenue].expand(len(rows), 1)
        rows = torch.cat([rows[:, :revenue], start, rows[:, revenue:]], 1)
    elif rows.dim() == 2 and rows.shape[1] == size:
        given = ~rows[:, revenue].isnan()
        if given.any():
            raise ValueError(
                f"r must have NaN in column {revenue}, the revenue that is searched for, or leave "
                f"the column out, got {rows[given, revenue][0].item():g}"
            )
        rows = rows.index_fill(1, torch.tensor([revenue], device=rows.device), loc[revenue].item())
    return matrix("r", rows, size, "r_dim")
