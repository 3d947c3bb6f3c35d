"""Predictive distributions of the first of several events, each with a latent time: incidences.

With latent times T_k that are independent given z, the incidence of cause k by t is the integral of
the product of the others' survival functions over F_k, averaged over z. It is summed over a grid of
times that does not depend on the revenues, between which survival functions count as straight,

    CIF_k(t) = sum_j (F_k(t_j+1) - F_k(t_j)) G_kj

with the mean G_kj of prod_l!=k S_l from t_j to t_j+1, so that it rises in F_k and falls in every
other F_l, whatever the grid. That holds to the last bit, because F is rounded to a multiple of
2^-30 once, G to one of 2^-31, and products and sums are those of whole numbers; and for two causes
the sums add up to 1 - S(t).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.predictive import Predictive

#: Steps of a probability. Products of two are whole numbers of 64 bits.
_ONE = 1 << 30
#: Times [J] to the distribution functions of each cause, K tensors [J, ...].
Cdfs = Callable[[Tensor], Sequence[Tensor]]


class _State(NamedTuple):
    """Distribution functions at a time, multiples of 2^-30, and sums up to it, of 2^-61."""

    below: list[Tensor]
    sums: list[Tensor]

    def after(self, cdfs: Sequence[Tensor]) -> _State:
        """The state at the last of rising times, from the distribution functions at them."""
        paths, sums = [], []
        for below, cdf in zip(self.below, cdfs, strict=True):
            rounded = (cdf * _ONE).round() / _ONE
            paths.append(torch.cat([below.expand(rounded[:1].shape), rounded]))
        for k, (path, total) in enumerate(zip(paths, self.sums, strict=True)):
            others = _mean_product([1.0 - each for j, each in enumerate(paths) if j != k])
            steps = (path.diff(dim=0) * _ONE).long() * (others * (2 * _ONE)).round().long()
            sums.append(total + steps.sum(0))
        return _State([path[-1] for path in paths], sums)

    def incidences(self) -> Tensor:
        """CIF_k, and S behind them, [K + 1, ...] in float64."""
        survival = torch.stack([1.0 - below for below in self.below]).prod(0)
        return torch.stack([*(total.double() / (2 * _ONE**2) for total in self.sums), survival])


def _mean_product(paths: Sequence[Tensor]) -> Tensor:
    """The mean of a product of straight lines between neighbours in paths [J, ...], [J - 1, ...].

    Gauss' rule is exact for it, and has positive weights, so that it rises with each.
    """
    mean: Any = 0.0
    for node, weight in zip(*np.polynomial.legendre.leggauss(len(paths) // 2 + 1), strict=True):
        share = 0.5 + 0.5 * float(node)
        lines = [(1.0 - share) * path[:-1] + share * path[1:] for path in paths]
        mean = mean + 0.5 * float(weight) * torch.stack(lines).prod(0)
    return mean


def incidences(cdfs: Cdfs, nodes: Tensor, times: Tensor, at_once: int) -> Iterator[Tensor]:
    """CIF_k of every cause and S at rising times [T], one after the other, [K + 1, ...] each.

    :param cdfs: the distribution functions of the latent times.
    :param nodes: rising times [J] of the sums, to which the time itself is added.
    :param at_once: times at which they are evaluated together.
    """
    count, zero = len(cdfs(times[:1])), times.new_zeros(())
    state, start = _State([zero] * count, [zero.long()] * count), 0
    for place, stop in enumerate(torch.searchsorted(nodes, times, right=True).tolist()):
        for first in range(start, stop, at_once):
            state = state.after(cdfs(nodes[first : min(stop, first + at_once)]))
        start = max(start, stop)
        yield state.after(cdfs(times[place : place + 1])).incidences()


class CausePredictive(Predictive):
    """A predictive distribution of the time of the first of several events, and of its cause.

    Causes are in the order of the response, `model.response.names`.
    """

    def incidence(self, times: ArrayLike) -> Tensor:
        """Pr(T <= t and the cause is k | x, r), [B, T, K], in float64.

        :param times: [T], at least 0, in the units of y; at inf the probability of each cause in
            the end.
        """
        return self._at(times)[..., :-1]

    def survival(self, times: ArrayLike) -> Tensor:
        """Pr(T > t | x, r) that none has come, [B, T], in float64."""
        return self._at(times)[..., -1]

    def causes(self) -> Tensor:
        """The probability of each cause in the end, [B, K]."""
        return self.incidence([torch.inf])[:, 0]

    def hazard(self, times: ArrayLike) -> Tensor:
        """Cause-specific hazards of the population, [B, T, K], in 1 / unit of y.

        The density of T with cause k over Pr(T > t). They carry no order: those who are left at t
        are others where r is another one.

        :param times: [T], above 0.
        """
        at = self._times(times)
        if (at <= 0.0).any():
            raise ValueError(f"times must be above 0 for a hazard, got {at.min().item():g}")

        def block(draws: Draws, rows: Rows) -> Tensor:
            parts, found = draws.p_y.parts, []
            for t in at:
                exact = torch.stack([t, t, torch.zeros_like(t)]).expand(len(rows.x), 3)
                log_f = [part.log_prob(exact).double() for part in parts]
                log_s = [part.log_survival(exact[:, 0]) for part in parts]
                whole: Tensor = sum(log_s[1:], log_s[0])
                log_none = draws.log_mean(whole)
                each = [whole - s + f for f, s in zip(log_f, log_s, strict=True)]
                found.append(torch.stack([draws.log_mean(log_p) - log_none for log_p in each]))
            return torch.stack(found).permute(2, 0, 1).exp()

        return self._average(block, torch.float64)

    def sample(self, num_samples: int = 1000, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Draws of the time and of the index of the cause of every row, each [S, B]."""
        options: Any = {"num_samples": num_samples, "seed": seed, "progress": False}
        y = self.model.posterior(*self.rows[:2], **options)["y"]
        time, cause = torch.stack([part.drawn(own) for _, part, own in self.response.each(y)]).min(
            0
        )
        return time.to(self.home), cause.to(self.home)

    def _at(self, times: ArrayLike) -> Tensor:
        at = self._times(times)
        rising, order = at.sort()

        def block(draws: Draws, rows: Rows) -> Tensor:
            found = [draws.mean(each) for each in self.response.incidences(draws.p_y, rising)]
            return torch.stack(found)[order.argsort()].permute(2, 0, 1)

        return self._average(block, torch.float64)

    def _times(self, times: ArrayLike) -> Tensor:
        given = torch.as_tensor(times, dtype=torch.float64)
        if given.dim() != 1 or not len(given) or not (given >= 0.0).all():
            raise ValueError(f"times must be [T], numbers of at least 0, got {given.tolist()}")
        return given.to(self.rows.x.device)
