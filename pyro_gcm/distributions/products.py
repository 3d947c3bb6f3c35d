"""The probability of an order event as products, in steps that keep the order of the revenues.

With Pr(c_k < r_k) = up_k and Pr(c_k >= r_k) = down_k the event has the probability

    hit  = up_1 ... up_K
    miss = down_1 + up_1 (down_2 + up_2 (... down_K))

which are sums and products of positive terms: both are right to a few ulp, relative, until they
underflow. Over alternatives the same holds once more, with hits and misses exchanged, and an atom
at infinity is one more coordinate. Neither needs a logarithm. `event_products` trains with them.

`Rising` predicts: a revenue is rounded once, to a grid on which two that differ do so by more than
the functions below err; every later step rises with the one before. Coordinates come first, [(G) K,
..., draws, rows]: a dimension of a few of them, kept innermost, makes every elementwise function
slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.distributions.families import tail_log_probs
from pyro_gcm.distributions.numerics import probit

#: Where a probability is smaller, its probit is computed from its logarithm.
_SMALLEST = 1e-280
#: Its probit.
_LOWEST = -35.78342139466303
#: Added and subtracted again, it rounds smaller numbers in float64 to multiples of 2^-40.
_GRID = 1.5 * 2.0**12
#: Numbers of a coordinate above which coordinates are computed one after another, in cache.
_CACHED = 1 << 13


class Rising:
    """The random side of an order event, coordinate by coordinate, for any revenues.

    Methods take the revenues as `planes` on the grid, [(G) K, ...], counted through alternatives.

    :param event: `OrderEvent` of a random side.
    """

    def __init__(self, event: Any) -> None:
        self.base, self.shape, self.standard = event.base_dist, event.cost_shape, event.standard
        if self.standard is not None:
            self.loc = planes(self.base.loc, self.shape)
            scale = planes(self.base.scale, self.shape).mul_(self.standard.unit)
            self.steepness = scale.reciprocal_()
        #: Of some coordinates a few values, and what `_at` gives for them.
        self.tables: dict[int, tuple[Tensor, dict[bool, Any]]] = {}
        self.odds = None  # of an infinite cost, [G, ...]
        if event.logits is not None:
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
            if self.standard is None or 2 * len(values) > len(column):
                continue
            room -= 2 * len(values) * self.loc[0].numel()
            if room >= 0:
                self.tables[k] = values, {}

    def probability(self, points: Tensor) -> Tensor:
        """Pr(y = 1) at revenues, [...]."""
        return self._any(self._hits(points)[0])

    def probit(self, points: Tensor, log_probs: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
        """Phi^-1(Pr(y = 1)) at revenues, [...].

        The smaller of Pr(y = 1) and Pr(y = 0) is inverted, each of which is precise where small.

        :param log_probs: gives log Pr(y = 0) and log Pr(y = 1), for what is smaller than that.
        """
        hits, logs = self._hits(points, log=True)
        zero, *misses = (log_hit.expm1_().neg_() for log_hit in logs)
        for miss in misses:
            zero = zero.mul_(miss)
        one = self._any(hits)
        low = one < 0.5
        smaller = torch.where(low, one, zero.clamp_(max=0.5))
        smaller.view(torch.int64).bitwise_and_(-1 << 8)  # neighbours as far apart as ndtri needs
        x = torch.special.ndtri(smaller)
        tiny = smaller < _SMALLEST
        if tiny.any():
            log_zero, log_one = log_probs()
            far = probit(torch.minimum(log_one, log_zero), torch.maximum(log_one, log_zero))
            x = torch.where(tiny, far.clamp(max=_LOWEST), x)
        return torch.where(low, x, -x)

    def _hits(self, points: Tensor, *, log: bool = False) -> tuple[list[Tensor], list[Tensor]]:
        """Pr(all c_k < r_k) of each alternative, [...], and their logarithms where asked for.

        The logarithm has a small absolute error, and a small relative one near probability 1.
        """
        hits: list[Tensor] = []
        logs: list[Tensor] = []
        every, many = [points], len(points)  # coordinates at a time
        if self.standard is not None:
            every = aligned(points, self.loc, self.steepness)
            numbers = math.prod(map(max, every[0].shape[1:], every[1].shape[1:]))
            many = 1 if numbers > _CACHED or self.tables else many
        for start in range(0, len(points), many):
            some = itemgetter(slice(start, start + many))
            pair: Any = self._known(start, log, *map(some, every)) if self.tables else None
            pair = pair or self._at(log, *map(some, every))
            for place, below in enumerate(pair[0], start):
                if torch.compiler.is_compiling():  # a program copies all where a part is changed
                    below = below.clone()
                log_below: Any = pair[1][place - start] if log else None
                if place % self.shape[-1] == 0:
                    hits.append(below)
                    logs.append(log_below)
                else:
                    hits[-1].mul_(below)
                    if log:
                        logs[-1].add_(log_below)
        if self.odds is not None:
            hits = [hit * (1.0 / (1.0 + odds)) for hit, odds in zip(hits, self.odds, strict=True)]
            if log:
                logs = [one - odds.log1p() for one, odds in zip(logs, self.odds, strict=True)]
        return hits, logs

    def _at(self, log: bool, points: Tensor, *units: Tensor) -> tuple[Tensor, Tensor | None]:
        """Pr(c_k < r_k) of some coordinates, and their logarithms.

        The smaller tail is computed on either side of the location.

        :param units: locations and steepnesses of a family in product form.
        """
        if self.standard is None:
            logs = planes(tail_log_probs(self.base, from_planes(points, self.shape))[0], self.shape)
            return logs.exp(), logs
        loc, steepness = units
        u = (points - loc).mul_(steepness)
        tail = self.standard.two_tails(u.abs())
        side = u.ge_(0.0)
        tail.mul_(0.5 - side)  # half of both tails, negative above the location
        if log:
            return side + tail, side.sub_(1.0).add_(tail).log1p_()
        return side.add_(tail), None

    def _known(
        self, k: int, log: bool, points: Tensor, *units: Tensor
    ) -> tuple[Tensor, Tensor | None] | None:
        """`_at` of coordinate k from its table; None where not all of the points are in it."""
        if k not in self.tables:
            return None
        values, tables = self.tables[k]
        column = points.flatten()
        place = torch.searchsorted(values, column).clamp_(max=len(values) - 1)
        if len(column) != points.shape[1] or not torch.equal(values[place], column):
            return None
        if log not in tables:
            every = values.reshape(1, -1, *(1 for _ in points.shape[2:]))
            tables[log] = self._at(log, every, *units)
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


def coarse(values: Tensor) -> Tensor:
    """`values` in float64 cut to 42 significant bits, towards 0; other types pass unchanged.

    Between neighbouring floats a special function can fall where the exact one rises: its rounding
    error exceeds the step. After the cut two values are equal or a relative 2^-42 apart, far more
    than such an error. The derivative is 1.
    """
    if values.dtype != torch.float64:
        return values
    known = values.detach()
    cut = torch.bitwise_and(known.contiguous().view(torch.int64), -1 << 11).view(torch.float64)
    return values + (cut - known) if values.requires_grad else cut


def on_grid(values: Tensor) -> Tensor:
    """`values` in float64, rounded to multiples of 2^-40 of at most 42 significant bits.

    Two that differ do so by more than sigmoid, exp or erfc err at them. The derivative is 1.
    """
    rounded = (values.double() + _GRID) - _GRID
    return coarse(rounded) if values.dtype == torch.float64 else rounded  # float32 has 24 bits


def planes(values: Tensor, event_shape: torch.Size) -> Tensor:
    """[..., (G,) K] as contiguous [(G) K, ...] in float64; a new tensor."""
    batch = values.shape[: max(0, values.dim() - len(event_shape))]
    parts = values.expand(*batch, *event_shape).flatten(len(batch)).movedim(-1, 0)
    return torch.empty(parts.shape, dtype=torch.float64, device=values.device).copy_(parts)


def aligned(*several: Tensor) -> list[Tensor]:
    """Planes [n, ...] with as many dimensions, so that they broadcast behind the first one."""
    dims, found = max(map(Tensor.dim, several)), []
    for values in several:
        found.append(values[(slice(None), *[None] * (dims - values.dim()))])
    return found


def from_planes(values: Tensor, event_shape: torch.Size) -> Tensor:
    """Planes [(G) K, ...] as [..., (G,) K]."""
    return values.movedim(0, -1).unflatten(-1, event_shape)
