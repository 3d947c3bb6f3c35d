"""An order event as predictions read it: in steps that keep the order of the revenues.

A revenue is rounded once, to a grid on which two that differ do so by more than the functions below
err; every later step rises with the one before. Coordinates come first, [(G) K, ..., draws, rows]:
a dimension of a few of them, kept innermost, makes every elementwise function slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.distributions.families import StandardFamily, cost_family, tail_log_probs
from pyro_gcm.distributions.numerics import probit

#: Where a probability is smaller, its probit is computed from its logarithm.
_TINY = 1e-280
#: Its probit.
_LOWEST = -35.78342139466303
#: Numbers of a coordinate above which coordinates are computed one after another, in cache.
_CACHED = 1 << 13


class Rising:
    """The random side of an order event, coordinate by coordinate, for any revenues.

    Methods take the revenues as `planes` on the grid, [(G) K, ...], counted through alternatives.

    :param event: `OrderEvent` of a random side.
    """

    def __init__(self, event: Any) -> None:
        self.base, self.shape = event.base_dist, event.cost_shape
        standard = cost_family(type(self.base)).standard
        if standard is not None:
            self.loc = planes(self.base.loc, self.shape)
            scale = planes(self.base.scale, self.shape).mul_(standard.unit)
            self.steepness = scale.reciprocal_()
        #: Of some coordinates a few values, and what `_at` gives for them.
        self.tables: dict[int, tuple[Tensor, dict[bool, Any]]] = {}
        self.odds = None  # of an infinite cost, [G, ...]
        if event.odds64 is not None:
            like = event.odds64 if len(self.shape) == 2 else event.odds64.unsqueeze(-1)
            self.odds = planes(like, self.shape[:-1] or torch.Size([1]))

    def tabulate(self, points: Tensor, room: float) -> None:
        """Compute a coordinate once for each value of it, where many revenues share few.

        A grid of two revenues does. The numbers are the same as without.

        :param points: [(G) K, R, ...], the same for all draws and rows.
        :param room: numbers that all tables may have.
        """
        self.tables = {}
        for k, column in enumerate(points.flatten(1)):
            values = column.unique()
            if cost_family(type(self.base)).standard is None or 2 * len(values) > len(column):
                continue
            room -= 2 * len(values) * self.loc[0].numel()
            if room >= 0:
                self.tables[k] = values, {}

    def probability(self, points: Tensor) -> Tensor:
        """Pr(y = 1) at revenues, [...]."""
        return self._any([hit for hit, _ in self._hits(points, log=False)])

    def probit(self, points: Tensor, log_probs: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
        """Phi^-1(Pr(y = 1)) at revenues, [...].

        The smaller of Pr(y = 1) and Pr(y = 0) is inverted, each of which is precise where small.

        :param log_probs: gives log Pr(y = 0) and log Pr(y = 1), for what is smaller than that.
        """
        hits, logs = zip(*self._hits(points, log=True), strict=True)
        zero, *misses = (log_hit.expm1_().neg_() for log_hit in logs)
        for miss in misses:
            zero = zero.mul_(miss)
        one = self._any(list(hits))
        low = one < 0.5
        smaller = torch.where(low, one, zero.clamp_(max=0.5))
        smaller.view(torch.int64).bitwise_and_(-1 << 8)  # neighbours as far apart as ndtri needs
        x = torch.special.ndtri(smaller)
        tiny = smaller < _TINY
        if tiny.any():
            log_zero, log_one = log_probs()
            far = probit(torch.minimum(log_one, log_zero), torch.maximum(log_one, log_zero))
            x = torch.where(tiny, far.clamp(max=_LOWEST), x)
        return torch.where(low, x, -x)

    def _hits(self, points: Tensor, log: bool) -> Iterator[tuple[Tensor, Any]]:
        """Pr(all c_k < r_k) of each alternative, [...], and its logarithm where asked for."""
        coordinates = self._below(points, log)
        for g in range(self.shape[:-1].numel()):
            hit, log_hit = next(coordinates)
            for _ in range(self.shape[-1] - 1):
                other, log_other = next(coordinates)
                hit = hit.mul_(other)
                log_hit = log_hit.add_(log_other) if log else None
            if self.odds is not None:
                hit = hit * (1.0 / (1.0 + self.odds[g]))
                log_hit = log_hit - self.odds[g].log1p() if log else None
            yield hit, log_hit

    def _below(self, points: Tensor, log: bool) -> Iterator[tuple[Tensor, Any]]:
        """Pr(c_k < r_k) of each coordinate, [...], and its logarithm where asked for.

        The smaller tail is computed on either side of the location. The logarithm has a small
        absolute error, and a small relative one near probability 1.
        """
        standard = cost_family(type(self.base)).standard
        if standard is None:
            value = from_planes(points, self.shape)
            logs = planes(tail_log_probs(self.base, value)[0], self.shape)
            yield from zip(logs.exp(), logs, strict=True)
            return
        every = aligned(points, self.loc, self.steepness)
        numbers = math.prod(map(max, every[0].shape[1:], every[1].shape[1:]))
        many = 1 if numbers > _CACHED or self.tables else len(points)  # coordinates at a time
        for start in range(0, len(points), many):
            u, loc, steepness = (values[start : start + many] for values in every)
            found = None
            if start in self.tables:
                found = self._known(start, u, loc, steepness, standard, log)
            below, logs = found or _at(u, loc, steepness, standard, log)
            yield from ((each, logs[i] if log else None) for i, each in enumerate(below))

    def _known(
        self,
        k: int,
        points: Tensor,
        loc: Tensor,
        steepness: Tensor,
        standard: StandardFamily,
        log: bool,
    ) -> tuple[Tensor, Any] | None:
        """`_at` of coordinate k from its table; None where not all of the points are in it."""
        values, tables = self.tables[k]
        column = points.flatten()
        place = torch.searchsorted(values, column).clamp_(max=len(values) - 1)
        if len(column) != points.shape[1] or not torch.equal(values[place], column):
            return None
        if log not in tables:
            every = values.reshape(1, -1, *(1 for _ in points.shape[2:]))
            tables[log] = _at(every, loc, steepness, standard, log)
        below, logs = tables[log]
        return below.index_select(1, place), logs.index_select(1, place) if log else None

    def _any(self, hits: list[Tensor]) -> Tensor:
        """Pr(at least one of independent alternatives), of probabilities that are overwritten."""
        if len(self.shape) == 1:
            return hits[0]
        none, *others = (hit.neg_().log1p_() for hit in hits)
        for other in others:
            none = none.add_(other)
        return none.expm1_().neg_()


def _at(
    points: Tensor, loc: Tensor, steepness: Tensor, standard: StandardFamily, log: bool
) -> tuple[Tensor, Any]:
    """The probabilities of `Rising._below` of some coordinates, and their logarithms."""
    u = (points - loc).mul_(steepness)
    tail = standard.two_tails(u.abs())
    side = u.ge_(0.0)
    tail.mul_(0.5 - side)  # half of both tails, negative above the location
    if log:
        return side + tail, side.sub_(1.0).add_(tail).log1p_()
    return side.add_(tail), None


def planes(values: Tensor, event_shape: torch.Size) -> Tensor:
    """[..., (G,) K] as contiguous [(G) K, ...] in float64; a new tensor."""
    batch = values.shape[: max(0, values.dim() - len(event_shape))]
    parts = values.expand(*batch, *event_shape).flatten(len(batch)).movedim(-1, 0)
    return torch.empty(parts.shape, dtype=torch.float64, device=values.device).copy_(parts)


def aligned(*several: Tensor) -> list[Tensor]:
    """Planes [n, ...] with as many dimensions, so that they broadcast behind the first one."""
    dims = max(values.dim() for values in several)
    return [v if v.dim() == dims else v[(slice(None), *[None] * (dims - v.dim()))] for v in several]


def from_planes(values: Tensor, event_shape: torch.Size) -> Tensor:
    """Planes [(G) K, ...] as [..., (G,) K]."""
    return values.movedim(0, -1).unflatten(-1, event_shape)
