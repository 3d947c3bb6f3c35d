"""Predictions that need the whole distribution of y: quantiles, intervals, draws, scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.options import share
from pyro_gcm._utils.validation import ArrayLike, as_tensor, same_rows, vector
from pyro_gcm.distributions.bisection import smallest_reaching
from pyro_gcm.distributions.event_planes import AT_ONCE
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.models.predictions import Count, prediction
from pyro_gcm.prediction.draws import Draws, Rows

#: Levels of the quantiles between which integrals are taken, and nodes of each of them.
LEVELS = (1e-7, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0 - 1e-4, 1.0 - 1e-7)
#: Where quantiles are first looked for, in standard deviations; how often, and how close to a
#: level, in probits, they come. Probits beyond `_FAR` count as equal.
_STARTS = (0.5, 1.0, 2.0, 4.0, 8.0, 32.0, 2.0**7, 2.0**10, 2.0**15, 2.0**20)
_ROUNDS, _CLOSE, _FAR = 12, 0.1, 8.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


class DistributionPredictions(Posteriors):
    """A model with what follows from Pr(Y <= y | x, r), averaged over the draws behind `predict`.

    All of it is ordered as y is: where y rises with r, its quantiles do, and quantiles of different
    levels do not cross.
    """

    @prediction
    def quantile(
        self, x: ArrayLike, r: ArrayLike, levels: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """The smallest y with Pr(Y <= y | x, r) of at least each level, in the units of y.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        :param levels: [L], strictly between 0 and 1.
        :returns: [B, L]; inf for a time that a cured fraction never reaches.
        :raises ValueError: for a response without a distribution function, and for other levels.
        """
        self._check_cdf("quantile")
        wanted = _levels(levels)

        def block(draws: Draws, rows: Rows) -> Tensor:
            cdf = self._cdf_of(draws, rows)
            every = wanted.to(rows.x.device)[:, None].expand(-1, len(rows.x))
            return quantiles(self.response, cdf, every).T

        return self.by_blocks(block, num_samples, self.rows(x, r), self._y_dtype)

    @prediction
    def median(self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None) -> Tensor:
        """The quantile of level 1/2, [B]; see `quantile`."""
        return self.quantile(x, r, [0.5], num_samples=num_samples)[:, 0]

    @prediction
    def interval(
        self, x: ArrayLike, r: ArrayLike, coverage: float = 0.9, *, num_samples: Count = None
    ) -> Tensor:
        """The central interval that holds y with a probability, [B, 2]; see `quantile`.

        :param coverage: that probability, strictly between 0 and 1.
        """
        share("coverage", coverage, "a probability")
        tail = 0.5 * (1.0 - coverage)
        return self.quantile(x, r, [tail, 1.0 - tail], num_samples=num_samples)

    @prediction
    def cdf(self, x: ArrayLike, r: ArrayLike, y: ArrayLike, *, num_samples: Count = None) -> Tensor:
        """Pr(Y <= y | x, r) of every row; uniform over calibrated rows.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        :param y: [B], or [B, T] for several values of each row.
        :returns: of the shape of y.
        :raises ValueError: for a response without a distribution function.
        """
        if y is None:
            raise ValueError("y must be given")
        self._check_cdf("cdf")
        if self.response.is_censored:
            raise ValueError("cdf needs y itself, and times may be censored: use predict_survival")
        rows, values = self.rows(x, r), as_tensor("y", y)
        at = self.response.outcome(values.reshape(-1) if values.dim() == 2 else y, self.device)
        self.response.check_outcome(at)
        at = at.reshape(values.shape)
        same_rows(x=rows.x, y=at)

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            return self._cdf_of(draws, rows)(rows.y.movedim(0, -1)).movedim(-1, 0)

        return self.by_blocks(block, num_samples, rows._replace(y=at))

    def sample(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int = 1000, seed: int = 0
    ) -> Tensor:
        """Independent draws of y for every row, [S, B]; of survival the times, inf for the cured.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        """
        if not (self.response.has_cdf or self.response.is_probability):
            raise ValueError(f"sample needs a response with a distribution of y, got {self._named}")
        draws = self.posterior(x, r, num_samples=num_samples, seed=seed, progress=False)
        return self.response.drawn(draws["y"])

    @prediction
    def crps(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """The continuous ranked probability score of every row, [B], in the units of y.

        It is the integral of (Pr(Y <= t) - 1{y <= t})^2 over t, 0 for a certain and right
        prediction; for levels the sum over them, the ranked probability score. The integral is
        taken between quantiles, to about six digits.

        :param y: [B].
        :raises ValueError: for a response without a distribution function, and for times, which
            may be known in part only.
        """
        self._check_cdf("crps")
        if self.response.is_censored:
            raise ValueError("crps needs y itself, and times may be censored: use log_prob")

        def block(draws: Draws, rows: Rows) -> Tensor:
            cdf, y = self._cdf_of(draws, rows), rows.y
            assert y is not None
            if self.response.levels:
                steps = torch.arange(self.response.levels - 1.0, device=y.device)
                parts = [(cdf(s.expand(len(y))) - (y <= s).double()).square() for s in steps]
                return torch.stack(parts).sum(0)
            return crps_of(self.response, cdf, y.double())

        return self.by_blocks(block, num_samples, self.rows(x, r, y), self._y_dtype)

    @prediction
    def class_probabilities(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """Pr(y = l) of every level, [B, L], for response "ordinal".

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        """
        if not self.response.levels:
            raise ValueError("class_probabilities need response='ordinal', got " + self._named)

        def block(draws: Draws, rows: Rows) -> Tensor:
            return draws.mean(draws.p_y.probabilities().movedim(-1, 0)).T

        return self.by_blocks(block, num_samples, self.rows(x, r))

    # What the methods above have in common

    @property
    def _y_dtype(self) -> torch.dtype:
        """Of y: that of predictions, and for times float64, which may be far from 0 or large."""
        wide = self.response.is_censored
        return torch.float64 if wide else self.response.prediction_dtype(self.dtype)

    @property
    def _named(self) -> str:
        return repr(self.response.named)

    def _cdf_of(self, draws: Draws, rows: Rows) -> Callable[[Tensor], Tensor]:
        """Pr(Y <= y | x, r) of a block as a function of y [..., b], float64."""
        p_y, count = draws.p_y, len(rows.x)
        costs = draws.left["c"].fn.event_shape.numel() if "c" in draws.left else 1
        at_once = max(1, AT_ONCE // (costs * draws.num_draws * count))

        def cdf(y: Tensor) -> Tensor:
            parts = y.reshape(-1, 1, count).split(at_once)  # [m, 1, b] beside draws [N, b]
            means = [draws.mean(p_y.cdf(part)) for part in parts]
            return torch.cat(means).reshape(y.shape)

        return cdf

    def _check_cdf(self, method: str) -> None:
        if not self.response.has_cdf:
            raise ValueError(
                f"{method} needs a response with a distribution function, such as 'continuous', "
                f"'distribution' or 'survival', got {self._named}"
            )


def _levels(levels: ArrayLike) -> Tensor:
    wanted = vector("levels", levels).double()
    if ((wanted <= 0.0) | (wanted >= 1.0)).any():
        raise ValueError(
            f"levels must lie strictly between 0 and 1, got values from {wanted.min().item():g} to "
            f"{wanted.max().item():g}"
        )
    return wanted


def quantiles(response: Any, cdf: Callable[[Tensor], Tensor], levels: Tensor) -> Tensor:
    """The smallest y [L, b] at which a distribution function reaches levels [L, b]."""
    start = torch.zeros_like(levels)
    if response.levels:
        below = [(cdf(start + s) < levels).double() for s in range(response.levels - 1)]
        return torch.stack(below).sum(0)

    def excess(standard: Tensor) -> Tensor:
        return cdf(response.from_standard(standard)) - levels

    return response.from_standard(smallest_reaching(excess, 0.0, start, start + 1.0))


def integral(function: Callable[[Tensor], Tensor], ends: Tensor) -> Tensor:
    """Integral [b] between the first and the last of rising ends [K, b], panel by panel.

    :param function: of points [J, b].
    """
    half, middle = 0.5 * ends.diff(dim=0), 0.5 * (ends[1:] + ends[:-1])
    nodes, weights = (ends.new_tensor(v)[:, None, None] for v in (_NODES, _WEIGHTS))
    points = (middle + nodes * half).flatten(0, 1)
    return (weights * half * function(points).reshape(-1, *half.shape)).sum((0, 1))


def crps_of(response: Any, cdf: Callable[[Tensor], Tensor], y: Tensor) -> Tensor:
    """CRPS [b]: squares of the distribution function below y and of its complement above."""
    levels = torch.tensor(LEVELS, dtype=torch.float64, device=y.device)[:, None]
    knots = _near_quantiles(response, cdf, levels.expand(-1, len(y)))
    ends = torch.cat([knots, y[None]]).sort(0).values
    return integral(lambda t: (cdf(t) - (y <= t).double()).square(), ends)


def _near_quantiles(response: Any, cdf: Callable[[Tensor], Tensor], levels: Tensor) -> Tensor:
    """Rising y [L, b] at which a distribution function is close to levels [L, b].

    They are looked for in probits, in which most distribution functions are nearly straight
    lines, between the closest points that are known. A row that is close enough stays as it is,
    whatever rows are beside it.
    """
    wanted = torch.special.ndtri(levels)
    steps = levels.new_tensor(_STARTS)
    known = torch.cat([-steps.flip(0), steps.new_zeros(1), steps])[:, None].repeat(1, len(levels.T))
    at_known = _probit(cdf(response.from_standard(known)))
    found, open_ = torch.zeros_like(levels), levels[0] > 0.0
    for _ in range(_ROUNDS):
        above = torch.searchsorted(at_known.T.contiguous(), wanted.T.contiguous()).T
        above = above.clamp(1, len(known) - 1)
        low, high = known.gather(0, above - 1), known.gather(0, above)
        at_low, at_high = at_known.gather(0, above - 1), at_known.gather(0, above)
        share = ((wanted - at_low) / (at_high - at_low)).nan_to_num(0.5).clamp(0.0, 1.0)
        found = torch.where(open_, low + share * (high - low), found)
        at_found = _probit(cdf(response.from_standard(found)))
        open_ = open_ & ((at_found - wanted).abs() > _CLOSE).any(0)
        if not open_.any():
            break
        known, order = torch.cat([known, found]).sort(0)
        at_known = torch.cat([at_known, at_found]).gather(0, order)
    return response.from_standard(found)


def _probit(p: Tensor) -> Tensor:
    return torch.special.ndtri(p).clamp(-_FAR, _FAR)
