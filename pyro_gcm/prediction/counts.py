"""Predictive distributions of the number of events over an exposure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor, same_rows, vector
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.predictive import Cdf, QuantilePredictive

#: Events of which quantiles speak, at most: whole numbers have this many.
_MOST = 2.0**52
#: Whole numbers on either side of a count that its score sums over, at most.
_SUMMED = 4096


class CountPredictive(QuantilePredictive):
    """A predictive distribution of the number of events over `exposure`, [B]."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.exposure = torch.ones(len(self.rows.x), dtype=torch.float64, device=self.model.device)

    @property
    def mean(self) -> Tensor:
        """The mean number of events, [B]."""
        x, r = self.rows[:2]
        options: Any = {"exposure": self.exposure, "num_samples": self.num_samples}
        found: Tensor = self.model.predict(x, r, **options)
        return found.to(self.home)

    def log_prob(self, y: ArrayLike) -> Tensor:
        """log Pr(N = y | x, r) of counts y [B] in nats, [B]."""
        return super().log_prob(self.response.exposed(y, self.exposure))

    def pmf(self, counts: ArrayLike) -> Tensor:
        """Pr(N = n | x, r) of every row, [B, K].

        :param counts: [K], the same for all rows.
        """
        every = vector("counts", counts, self.exposure.device).double()
        self.response.check_outcome(torch.stack([every, torch.ones_like(every)], 1))

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            pairs = (torch.stack([n.expand(len(rows.x)), rows.y[:, -1]], 1) for n in every)
            return torch.stack([draws.mean(draws.p_y.log_prob(y).exp()) for y in pairs], 1)

        return self._average(block)

    def cdf(self, y: ArrayLike) -> Tensor:
        """Pr(N <= y | x, r) of every row.

        :param y: [B], or [B, T] for several values of each row.
        :returns: of the shape of y.
        """
        at = as_tensor("y", y, self.rows.x.device).double()
        same_rows(x=self.rows.x, y=at)

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            return self._cdf_of(draws, rows)(rows.y[:, :-1].T).T

        return self._average(block, torch.float64, at.reshape(len(at), -1)).reshape(at.shape)

    def sample(self, num_samples: int = 1000, *, seed: int = 0) -> Tensor:
        """Independent draws of the number of events of every row, [S, B]."""
        options: Any = {"num_samples": num_samples, "seed": seed, "progress": False}
        rate = self.model.posterior(*self.rows[:2], **options)["rate"]
        generator = torch.Generator(rate.device).manual_seed(seed)
        return torch.poisson(rate * self.exposure.to(rate), generator).to(self.home)

    def crps(self, y: ArrayLike) -> Tensor:
        """The continuous ranked probability score of counts y [B], in events, [B].

        It is the sum of (Pr(N <= n) - 1{y <= n})^2 over n = 0, 1, .., up to quantiles of which
        1e-12 is left; of more than 4,096 whole numbers on a side of y some stand for their
        neighbours.
        """
        seen = self.response.exposed(y, self.exposure)[:, :1]
        ends = torch.tensor([1e-12, 1.0 - 1e-12], dtype=torch.float64, device=seen.device)

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            cdf, at = self._cdf_of(draws, rows), rows.y[:, 0]
            low, high = self._quantiles(cdf, ends[:, None].expand(2, len(at)))
            total = torch.zeros_like(at)
            for start, stop, step in ((low.minimum(at), at, 0.0), (at, high.maximum(at), 1.0)):
                stride = ((stop - start) / _SUMMED).ceil().clamp(min=1.0)
                most = int(((stop - start) / stride).ceil().max())
                first = start + stride * torch.arange(most, device=at.device)[:, None]
                weight = (stop - first).clamp(min=0.0).minimum(stride)
                middle = first + ((stride - 1.0) / 2.0).floor()
                if most:
                    total = total + (weight * (cdf(middle) - step).square()).sum(0)
            return total

        return self._average(block, torch.float64, seen)

    def rate(self, y: ArrayLike) -> Tensor:
        """The mean of the rate of every row given that y [B] events occurred, [B].

        What actuaries call its credibility estimate: of each draw of z it is (a + y) / (b + e) for
        a rate from Gamma(a, b), weighed by the probability of y.
        """
        seen = self.response.exposed(y, self.exposure)

        def block(draws: Draws, rows: Rows) -> Tensor:
            assert rows.y is not None
            given = rows._replace(y=rows.y[:, :2])
            weights = draws.log_joint(given).softmax(0)
            return (weights * draws.p_y.rate_given(given.y)).sum(0)

        return self._average(block, torch.float64, seen)

    def _average(
        self, of: Callable[[Draws, Rows], Tensor], dtype: Any = None, y: Tensor | None = None
    ) -> Tensor:
        """With the exposure as the last column of y."""
        own = [] if y is None else [y]
        return super()._average(of, dtype, torch.cat([*own, self.exposure[:, None]], 1))

    @property
    def _y_dtype(self) -> torch.dtype:
        return torch.float64

    def _cdf_of(self, draws: Draws, rows: Rows) -> Cdf:
        assert rows.y is not None
        return super()._cdf_of(draws._replace(p_y=draws.p_y.over(rows.y[:, -1])), rows)

    def _quantiles(self, cdf: Cdf, levels: Tensor) -> Tensor:
        """By doubling, and halving what is left."""
        low, high = torch.full_like(levels, -1.0), torch.ones_like(levels)
        while (short := (cdf(high) < levels) & (high < _MOST)).any():
            low, high = torch.where(short, high, low), torch.where(short, 2.0 * high, high)
        while ((high - low) > 1.0).any():
            middle = ((low + high) / 2.0).floor()
            reached = cdf(middle) >= levels
            low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
        return high
