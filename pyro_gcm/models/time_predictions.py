"""Predictions of the time of an event: survival curves, hazards, restricted means, cured rows."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.validation import ArrayLike, positive, vector
from pyro_gcm.models.distribution_predictions import (
    LEVELS,
    DistributionPredictions,
    integral,
    quantiles,
)
from pyro_gcm.models.predictions import prediction
from pyro_gcm.prediction.draws import Draws, Rows


class TimePredictions(DistributionPredictions):
    """A model with what follows from Pr(T <= t | x, r) for response "survival"."""

    @prediction
    def predict_survival(
        self, x: ArrayLike, r: ArrayLike, times: ArrayLike, *, num_samples: int | None = None
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
        self, x: ArrayLike, r: ArrayLike, times: ArrayLike, *, num_samples: int | None = None
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
    def cured_fraction(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
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
        self, x: ArrayLike, r: ArrayLike, horizon: float, *, num_samples: int | None = None
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
