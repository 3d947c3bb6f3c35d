"""Predictive distributions of the first of several events, each with a latent time: incidences.

With latent times T_k that are independent given z, the incidence of cause k by t is the integral of
G, the product of the others' survival functions, over F_k, averaged over z. Between times that do
not depend on the revenues it is summed in the increments p_i of F_k and q_j of 1 - G,

    CIF_k(t) = sum_i p_i (G_i + G_i+1) / 2  +  sum over blocks of sum_ij p_i A_ij q_j

The first sum rises in F_k and falls in 1 - G whatever they are, and errs by the square of the
distance of the times, as every rule must that keeps order for all pairs of distribution functions.
In a block of `CELLS` increments, between Gauss-Lobatto nodes, the antisymmetric A takes the sum to
the order 2 * `CELLS`: together they are sum_i w_i F_k'(t_i) G(t_i) with the derivative of the
interpolating polynomial, and summed by parts minus the same with F_k and G exchanged
(summation-by-parts operators: Kreiss and Scherer 1974, Gassner 2013). So order is kept wherever
both derivatives are positive at the nodes, which they are in blocks that are short beside the
spread of the latent times. Which ones are is told without the revenues; in others A is left out.

F is rounded to a multiple of 2^-41 once, and products and sums are those of whole numbers, so that
no rounding breaks the order; for two causes the sums add up to 1 - S(t).
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

#: Increments of a block.
CELLS = 8
#: Steps of a probability, and of an entry of A.
_ONE, _UNIT = 1 << 41, 1 << 24
#: Positions [J] to the distribution functions of each cause, K tensors [J, ...].
Cdfs = Callable[[Tensor], Sequence[Tensor]]
#: Lower and upper ends [E] of blocks to whether they are short, [E, ...].
Short = Callable[[Tensor, Tensor], Tensor]


def _block() -> tuple[Tensor, list[list[int]]]:
    """Gauss-Lobatto nodes from 0 to 1, but the first, and A in whole numbers."""
    legendre = np.polynomial.Legendre.basis(CELLS)
    nodes = np.concatenate([[-1.0], np.sort(legendre.deriv().roots().real), [1.0]])
    values = legendre(nodes)
    apart = nodes[:, None] - nodes + np.eye(CELLS + 1)
    # Weights times derivatives of Lagrange's polynomials; those on the diagonal are not read.
    by_parts = 2.0 / (CELLS * (CELLS + 1) * np.outer(values, values) * apart)
    np.fill_diagonal(by_parts, [-0.5, *np.zeros(CELLS - 1), 0.5])
    above = by_parts[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1][1:, 1:]
    skew = np.triu(np.rint(_UNIT * (above - 1.0)), 1)
    return torch.from_numpy(0.5 + 0.5 * nodes[1:]), (skew - skew.T).astype(int).tolist()


_SHARES, _SKEW = _block()


class _State(NamedTuple):
    """Where blocks end: F of each cause in steps, and sums up to there.

    Sums are kept as their remainder modulo 2^64, and as a float of which that remainder makes the
    exact number.
    """

    below: list[Tensor]
    exact: list[Tensor]
    near: list[Tensor]

    def after(self, cdfs: Cdfs, short: Short, low: Tensor, high: Tensor) -> _State:
        """The state behind blocks between rising positions [E], which follow one another."""
        shares = _SHARES.to(low)
        nodes = low[:, None] + shares * (high - low)[:, None]
        nodes = torch.where(shares < 1.0, nodes.nan_to_num(nan=-torch.inf), high[:, None])
        found = [(cdf * _ONE).round().long() for cdf in cdfs(nodes.flatten())]
        paths = [
            torch.cat([below.expand(cdf[:1].shape), cdf])
            for below, cdf in zip(self.below, found, strict=True)
        ]
        corrected, exact, near = short(low, high).long().unsqueeze(1), [], []
        for k, path in enumerate(paths):
            other = _any([each for j, each in enumerate(paths) if j != k])
            p, q = (each.diff(dim=0).unflatten(0, (-1, CELLS)) for each in (path, other))
            ends = (2 * _ONE - other[1:] - other[:-1]).unflatten(0, (-1, CELLS))
            skew = torch.stack([sum(a * q[:, j] for j, a in enumerate(row)) for row in _SKEW], 1)
            skew = corrected * skew
            exact.append(self.exact[k] + (p * (ends * (_UNIT // 2) + skew)).sum((0, 1)))
            factor = ends.double() * (_UNIT // 2) + skew.double()
            near.append(self.near[k] + (p.double() * factor).sum((0, 1)))
        return _State([path[-1] for path in paths], exact, near)

    def incidences(self) -> Tensor:
        """CIF_k, on a grid of 2^-52, and S behind them, [K + 1, ...] in float64."""
        found = []
        for exact, near in zip(self.exact, self.near, strict=True):
            low = exact.double() / 2.0**64
            sums = low + (near / 2.0**64 - low).round()
            found.append((sums * 2.0**10).round() * (2.0**54 / (_UNIT * _ONE**2)))
        return torch.stack([*found, _none(self.below)])


def _any(paths: Sequence[Tensor]) -> Tensor:
    """The probability that one of independent events came, in steps; it rises with each."""
    if len(paths) == 1:
        return paths[0]
    return _ONE - (_none(paths) * _ONE).round().long()


def _none(paths: Sequence[Tensor]) -> Tensor:
    """The probability that none of independent events came, in float64."""
    return torch.stack([1.0 - path.double() / _ONE for path in paths]).prod(0)


def incidences(
    cdfs: Cdfs, short: Short, edges: Tensor, ends: Tensor, at_once: int
) -> Iterator[Tensor]:
    """CIF_k of every cause and S at rising positions [T], one after the other, [K + 1, ...] each.

    :param cdfs: the distribution functions of the latent times at positions.
    :param short: whether blocks are short beside the spread of every latent time.
    :param edges: rising positions [E + 1] between which blocks lie; one more goes up to the end.
    :param at_once: positions at which they are evaluated together.
    """
    count, many = len(cdfs(edges[:1])), max(1, at_once // CELLS)
    none = torch.zeros((), dtype=torch.int64, device=edges.device)
    start = _State([none] * count, [none] * count, [none.double()] * count)
    state, done = start.after(cdfs, short, edges[:1], edges[:1]), 0
    for end in ends.split(1):
        if end < edges[0]:
            yield start.after(cdfs, short, end, end).incidences()
            continue
        last = int(torch.searchsorted(edges, end, right=True)) - 1
        for first in range(done, last, many):
            stop = min(last, first + many)
            state = state.after(cdfs, short, edges[first:stop], edges[first + 1 : stop + 1])
        done = max(done, last)
        yield state.after(cdfs, short, edges[last : last + 1], end).incidences()


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
