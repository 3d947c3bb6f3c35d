"""Predictive distributions of y: densities, distribution functions, quantiles, draws, hazards.

A response names the class that has what its outcomes have: `model.predictive(x, r)` of a binary
response has no hazard. Everything is averaged over the draws behind `predict`, and ordered as y is:
where y rises with r, its quantiles do, and quantiles of different levels do not cross.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.bisection import integral, near_quantiles, smallest_reaching
from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import ArrayLike, as_tensor, positive, same_rows, share, vector
from pyro_gcm.prediction.draws import Draws, Rows

#: Numbers of costs that are evaluated at once.
AT_ONCE = 1 << 18
#: Levels of the quantiles between which integrals are taken.
LEVELS = (1e-7, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0 - 1e-4, 1.0 - 1e-7)
Cdf = Callable[[Tensor], Tensor]


class Predictive:
    """p(y | x, r) of B rows, as `model.predictive(x, r)` returns it.

    Tensors are on the device of x; arrays of other kinds count as being on the CPU.

    :param model: trained.
    :param rows: checked x [B, x_dim] and r [B, r_dim].
    :param num_samples: draws of z behind it, if not the model's own number.
    """

    def __init__(self, model: Any, rows: Rows, num_samples: int | None, home: Any) -> None:
        self.model, self.rows, self.num_samples, self.home = model, rows, num_samples, home
        self.response = model.response

    def log_prob(self, y: ArrayLike) -> Tensor:
        """log p(y | x, r) of outcomes y [B] in nats, [B]; see the `log_prob` of the model."""
        x, r = self.rows[:2]
        log_p: Tensor = self.model.log_prob(x, r, y, num_samples=self.num_samples)
        return log_p.to(self.home)

    def _average(
        self, of: Callable[[Draws, Rows], Tensor], dtype: Any = None, y: Tensor | None = None
    ) -> Tensor:
        """Evaluate a function of draws and rows on all rows, block by block: [B, ...]."""
        model, rows = self.model, self.rows._replace(y=y)
        with evaluating(model), torch.no_grad():
            found: Tensor = model.each_block(of, rows, model.noise(self.num_samples))
        return found.to(self.home, dtype or model.dtype)


class SampledPredictive(Predictive):
    """A predictive distribution of outcomes that can be drawn."""

    def sample(self, num_samples: int = 1000, *, seed: int = 0) -> Tensor:
        """Independent draws of y for every row, [S, B]; of times inf for the cured."""
        options = {"num_samples": num_samples, "seed": seed, "progress": False}
        draws = self.model.posterior(*self.rows[:2], **options)
        found: Tensor = self.response.drawn(draws["y"])
        return found.to(self.home)


class MeanPredictive(SampledPredictive):
    """A predictive distribution whose mean is the prediction."""

    @property
    def mean(self) -> Tensor:
        """E(y | x, r), [B]: for events their probability, for levels the mean level."""
        x, r = self.rows[:2]
        found: Tensor = self.model.predict(x, r, num_samples=self.num_samples)
        return found.to(self.home)


class QuantilePredictive(SampledPredictive):
    """A predictive distribution with a distribution function."""

    def quantile(self, levels: ArrayLike) -> Tensor:
        """The smallest y with Pr(Y <= y | x, r) of at least each level, in the units of y.

        :param levels: [L], strictly between 0 and 1.
        :returns: [B, L]; inf for a time that a cured fraction never reaches.
        """
        wanted = vector("levels", levels).double()
        if ((wanted <= 0.0) | (wanted >= 1.0)).any():
            raise ValueError(
                f"levels must lie strictly between 0 and 1, got values from {wanted.min():g} to "
                f"{wanted.max():g}"
            )

        def block(draws: Draws, rows: Rows) -> Tensor:
            every = wanted.to(rows.x.device)[:, None].expand(-1, len(rows.x))
            return self._quantiles(self._cdf_of(draws, rows), every).T

        return self._average(block, self._y_dtype)

    def median(self) -> Tensor:
        """The quantile of level 1/2, [B]."""
        return self.quantile([0.5])[:, 0]

    def interval(self, coverage: float = 0.9) -> Tensor:
        """The central interval that holds y with a probability, [B, 2].

        :param coverage: that probability, strictly between 0 and 1.
        """
        share("coverage", coverage, "a probability")
        tail = 0.5 * (1.0 - coverage)
        return self.quantile([tail, 1.0 - tail])

    @property
    def _y_dtype(self) -> torch.dtype:
        found: torch.dtype = self.response.prediction_dtype(self.model.dtype)
        return found

    def _cdf_of(self, draws: Draws, rows: Rows) -> Cdf:
        """Pr(Y <= y | x, r) of a block as a function of y [..., b], float64."""
        p_y, count = draws.p_y, len(rows.x)
        costs = draws.left["c"].fn.event_shape.numel() if "c" in draws.left else 1
        at_once = max(1, AT_ONCE // (costs * draws.num_draws * count))

        def cdf(y: Tensor) -> Tensor:
            parts = y.reshape(-1, 1, count).split(at_once)  # [m, 1, b] beside draws [N, b]
            means = [draws.mean(p_y.cdf(part)) for part in parts]
            return torch.cat(means).reshape(y.shape)

        return cdf

    def _quantiles(self, cdf: Cdf, levels: Tensor) -> Tensor:
        """The smallest y [L, b] at which a distribution function reaches levels [L, b]."""
        value, start = self.response.from_standard, torch.zeros_like(levels)

        def excess(standard: Tensor) -> Tensor:
            return cdf(value(standard)) - levels

        found: Tensor = value(smallest_reaching(excess, 0.0, start, start + 1.0))
        return found


class DistributionPredictive(QuantilePredictive, MeanPredictive):
    """A predictive distribution of numbers."""

    def cdf(self, y: ArrayLike) -> Tensor:
        """Pr(Y <= y | x, r) of every row; uniform over calibrated rows.

        :param y: [B], or [B, T] for several values of each row.
        :returns: of the shape of y.
        """
        values = as_tensor("y", y)
        at = self._outcomes(values.reshape(-1) if values.dim() == 2 else y).reshape(values.shape)
        same_rows(x=self.rows.x, y=at)

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            return self._cdf_of(draws, rows)(rows.y.movedim(0, -1)).movedim(-1, 0)

        return self._average(block, y=at)

    def _outcomes(self, y: ArrayLike) -> Tensor:
        at = self.response.outcome(y, self.rows.x.device)
        self.response.check_outcome(at)
        return at

    def crps(self, y: ArrayLike) -> Tensor:
        """The continuous ranked probability score of every row, [B], in the units of y.

        It is the integral of (Pr(Y <= t) - 1{y <= t})^2 over t, 0 for a certain and right
        prediction; for levels the sum over them, the ranked probability score. The integral is
        taken between quantiles, to about six digits.

        :param y: [B].
        """
        same_rows(x=self.rows.x, y=(at := self._outcomes(y)))

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            return self._crps(self._cdf_of(draws, rows), rows.y)

        return self._average(block, self._y_dtype, at)

    def _crps(self, cdf: Cdf, y: Tensor) -> Tensor:
        """Squares of the distribution function below y [b] and of its complement above."""
        y = y.double()
        levels = torch.tensor(LEVELS, dtype=torch.float64, device=y.device)[:, None]
        knots = near_quantiles(self.response.from_standard, cdf, levels.expand(-1, len(y)))
        ends = torch.cat([knots, y[None]]).sort(0).values
        return integral(lambda t: (cdf(t) - (y <= t).double()).square(), ends)


class LevelPredictive(DistributionPredictive):
    """A predictive distribution of ordered levels 0, 1, .., L-1."""

    def probabilities(self) -> Tensor:
        """Pr(y = l) of every level, [B, L]."""

        def block(draws: Draws, rows: Rows) -> Tensor:
            return draws.mean(draws.p_y.probabilities().movedim(-1, 0)).T

        return self._average(block)

    def _quantiles(self, cdf: Cdf, levels: Tensor) -> Tensor:
        steps = torch.arange(self.response.levels - 1.0, device=levels.device)
        return torch.stack([(cdf(s.expand_as(levels)) < levels).double() for s in steps]).sum(0)

    def _crps(self, cdf: Cdf, y: Tensor) -> Tensor:
        steps = torch.arange(self.response.levels - 1.0, device=y.device)
        parts = [(cdf(s.expand(len(y))) - (y <= s).double()).square() for s in steps]
        return torch.stack(parts).sum(0)


class TimePredictive(QuantilePredictive):
    """A predictive distribution of the time T of an event; its quantiles are in float64."""

    def survival(self, times: ArrayLike) -> Tensor:
        """Pr(T > t | x, r), [B, T].

        It falls in the times and in every column of r. It is 1 minus a probability, 0 below 1e-16;
        `log_prob` of right-censored times has the digits of the tail.

        :param times: [T], at least 0, in the units of y.
        """
        return self._survival(self._times(times))

    def hazard(self, times: ArrayLike) -> Tensor:
        """The density of T at times over Pr(T > t), [B, T], in 1 / unit of y.

        :param times: [T], above 0.
        """
        at = self._times(times)
        if (at <= 0.0).any():
            raise ValueError(f"times must be above 0 for a hazard, got {at.min().item():g}")

        def block(draws: Draws, rows: Rows) -> Tensor:
            p_y, found = draws.p_y, []
            for t in at:
                exact = torch.stack([t, t, torch.zeros_like(t)]).expand(len(rows.x), 3)
                log_f, log_s = p_y.log_prob(exact).double(), p_y.log_survival(exact[:, 0])
                found.append(draws.log_mean(log_f) - draws.log_mean(log_s))
            return torch.stack(found, -1).exp()

        return self._average(block)

    def cured_fraction(self) -> Tensor:
        """Pr(T = inf | x, r), [B], that the event never comes: 0 for a model without `p0`."""
        return self._survival(torch.tensor([torch.inf], dtype=torch.float64))[:, 0]

    def _survival(self, times: Tensor) -> Tensor:
        """Pr(T > t | x, r) at times [T], [B, T]."""

        def block(draws: Draws, rows: Rows) -> Tensor:
            every = times.to(rows.x.device)[:, None].expand(-1, len(rows.x))
            return 1.0 - self._cdf_of(draws, rows)(every).T

        return self._average(block)

    def restricted_mean(self, horizon: float) -> Tensor:
        """The mean of min(T, horizon), [B]: the area under the survival curve up to the horizon.

        :param horizon: a time above 0, in the units of y.
        """
        end = positive("horizon", horizon)

        def block(draws: Draws, rows: Rows) -> Tensor:
            cdf = self._cdf_of(draws, rows)
            last = torch.full((len(rows.x),), end, dtype=torch.float64, device=rows.x.device)
            levels = torch.tensor(LEVELS, dtype=torch.float64, device=last.device)[:, None]
            knots = self._quantiles(cdf, levels * cdf(last)).clamp(max=end)
            # Before the first of them nearly nobody has had the event. Later, by the position.
            units = self.response
            positions = [units.position(t) for t in (*knots, last)]

            def speed(position: Tensor) -> Tensor:
                t = units.value(position)
                return (1.0 - cdf(t)) / units.log_slope(t).exp()

            return knots[0] + integral(speed, torch.stack(positions))

        return self._average(block, torch.float64)

    @property
    def _y_dtype(self) -> torch.dtype:
        """Times may be far from 0, or large."""
        return torch.float64

    def _times(self, times: ArrayLike) -> Tensor:
        if (shape := as_tensor("times", times).shape)[1:]:
            raise ValueError(f"times must be [T], the same for all rows, got shape {list(shape)}")
        at = vector("times", times, self.rows.x.device).double()
        if (at < 0.0).any():
            raise ValueError(f"times must be at least 0, got {at.min().item():g}")
        return at
