"""Pr(c < r) one coordinate after another, in place and without gradients, as predictions need it.

A dimension of a few coordinates, kept innermost, makes every elementwise function slow. Here each
coordinate has tensors of its own, planes, whose dimensions are those of revenues, draws and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.distributions.families import cost_family, tail_log_probs
from pyro_gcm.distributions.numerics import probit

#: Where a probability is smaller, its probit is computed from its logarithm.
TINY = 1e-280
ALL = slice(None)
#: Numbers of costs that are evaluated at once where there are many values of one row.
AT_ONCE = 1 << 18


def coarse(values: Tensor) -> Tensor:
    """`values` in float64 cut to 42 significant bits, towards 0; other types pass unchanged.

    Between neighbouring floats a special function can fall where the exact one rises: its rounding
    error exceeds the step. After the cut two values are equal or a relative 2^-42 apart, far more
    than such an error.
    """
    if values.dtype != torch.float64:
        return values
    dropped = (1 << 11) - 1
    return torch.bitwise_and(values.contiguous().view(torch.int64), ~dropped).view(torch.float64)


def on_grid(values: Tensor) -> Tensor:
    """`values` in float64 rounded to multiples of 2^-40, next to which later rounding is small."""
    return coarse(torch.round(values * 2.0**40) / 2.0**40)


class Factor(NamedTuple):
    """Planes Pr(c_k < r_k) of one coordinate in float64, and their logarithms where asked for.

    The logarithm has a small absolute error, and a small relative one near probability 1.
    """

    below: Tensor
    log_below: Any = None

    def select(self, index: Tensor) -> Factor:
        """Copies of planes along dimension 0."""
        logs = self.log_below
        logs = None if logs is None else logs.index_select(0, index)
        return Factor(self.below.index_select(0, index), logs)


class CostCoordinates:
    """The random side of an `OrderEvent`, split into its coordinates.

    :param event: of a random cost or revenue.
    :param rows: the rows of the last batch dimension to keep, where the cost is `separable`.
    """

    def __init__(self, event: Any, rows: slice = ALL) -> None:
        logits, event_shape = event.logits, event.cost_shape
        self.base, self.event_shape = event.base_dist, event_shape
        standard = cost_family(type(self.base)).standard
        #: Whether a coordinate, and a row, can be evaluated alone and still gets the same bits.
        self.separable = standard is not None
        if standard is not None:
            self._two_tails = standard.two_tails
            self._loc = planes(self.base.loc, event_shape, rows)
            steepness = planes(self.base.scale, event_shape, rows).mul(standard.unit)
            self.steepness = steepness.reciprocal_()
        self._odds = None  # of an infinite cost, [G, ...]
        if logits is not None:
            alternatives = event_shape[:-1] or torch.Size([1])
            like = logits if len(event_shape) == 2 else logits.unsqueeze(-1)
            self._odds = planes(like, alternatives, rows).exp()

    def factors(
        self, point: Tensor, logarithms: bool = False, rows: slice = ALL
    ) -> Iterator[Factor]:
        """The factors of all coordinates for revenues [..., (G,) K], of which `rows` are kept."""
        if not self.separable:
            log_below, _ = tail_log_probs(self.base, point)
            yield from (Factor(p.exp(), p) for p in planes(log_below, self.event_shape))
            return
        for k, value in enumerate(planes(point, self.event_shape, rows)):
            yield self.factor(k, value, logarithms)

    def factor(self, k: int, value: Tensor, logarithm: bool = False) -> Factor:
        """That coordinate k, counted through all alternatives, is below `value`.

        The smaller tail is computed on either side of the location, so that the result increases
        with the value.
        """
        u = (value - self._loc[k]).mul_(self.steepness[k])
        tail = self._two_tails(u.abs())
        side = u.ge_(0.0)
        tail.mul_(0.5 - side)  # half of both tails, negative above the location
        if not logarithm:
            return Factor(side.add_(tail))
        below = side + tail
        above = side.neg_().add_(1.0).sub_(tail)
        return Factor(below, above.neg_().log1p_())

    def joint(self, factors: Iterable[Factor]) -> Iterator[Factor]:
        """The factor of each alternative: that all of its coordinates are below, in place."""
        ordered = iter(factors)
        for g in range(self.event_shape[:-1].numel()):
            below, log_below = next(ordered)
            for _ in range(self.event_shape[-1] - 1):
                also, log_also = next(ordered)
                below.mul_(also)
                if log_below is not None:
                    log_below.add_(log_also)
            if self._odds is not None:
                below = below * (1.0 / (1.0 + self._odds[g]))
                log_below = None if log_below is None else log_below - self._odds[g].log1p()
            yield Factor(below, log_below)


class EventPlanes:
    """An order event as predictions read it.

    :param cost: the cost.
    :param factors: `factors(logarithms)` gives the factors of all coordinates, which are
        overwritten.
    :param log_probs: gives log Pr(y = 0) and log Pr(y = 1), for probabilities that are too small.
    """

    def __init__(
        self,
        cost: CostCoordinates,
        factors: Callable[[bool], Iterable[Factor]],
        log_probs: Callable[[], tuple[Tensor, Tensor]],
    ) -> None:
        self.cost, self.factors, self.log_probs = cost, factors, log_probs

    def probability64(self) -> Tensor:
        """Pr(y = 1) in float64.

        Every step increases with the coordinates' probabilities, as far as log1p and expm1 do.
        """
        hits = [hit for hit, _ in self.cost.joint(self.factors(False))]
        return hits[0] if len(self.cost.event_shape) == 1 else any_of(hits)

    def probit64(self) -> Tensor:
        """Phi^-1(Pr(y = 1)) in float64.

        The smaller of Pr(y = 1) and Pr(y = 0) is inverted. Each of them is precise where it is
        small, and computed in steps that keep the order of the revenues.
        """
        alternatives = list(self.cost.joint(self.factors(True)))
        one, log_one = alternatives[0]
        zero = log_one.expm1().neg_()
        for _, log_hit in alternatives[1:]:
            zero.mul_(log_hit.expm1_().neg_())
        if len(self.cost.event_shape) == 2:
            one = any_of([hit for hit, _ in alternatives])
        low = one < 0.5
        smaller = torch.where(low, one, zero.clamp_(max=0.5))
        # Without the last 8 bits neighbours are as far apart as ndtri needs in order to rise.
        smaller.view(torch.int64).bitwise_and_(-1 << 8)
        x = torch.special.ndtri(smaller)
        tiny = smaller < TINY
        if tiny.any():
            log_zero, log_one = self.log_probs()
            far = probit(torch.minimum(log_one, log_zero), torch.maximum(log_one, log_zero))
            x = torch.where(tiny, far.clamp(max=float(torch.special.ndtri(x.new_tensor(TINY)))), x)
        return torch.where(low, x, -x)


def planes_of(event: Any, rows: slice = ALL) -> EventPlanes:
    """An `OrderEvent` with a random cost, as predictions read it.

    :param rows: the rows of the last batch dimension to keep, where the cost is `separable`.
    """
    cost = CostCoordinates(event, rows)

    def log_probs() -> tuple[Tensor, Tensor]:
        log_zero, log_one = event.log_probs64()
        return log_zero[..., rows], log_one[..., rows]

    return EventPlanes(cost, partial(cost.factors, event.point, rows=rows), log_probs)


def of_rows(values: Tensor, rows: slice) -> Tensor:
    """Some rows of values [..., B], which may also be the same for all rows, [..., 1] or []."""
    return values[..., rows] if values.dim() and values.shape[-1] > 1 else values


def any_of(probabilities: list[Tensor]) -> Tensor:
    """Pr(at least one of independent events); the tensors are overwritten."""
    log_none = probabilities[0].neg_().log1p_()
    for p in probabilities[1:]:
        log_none.add_(p.neg_().log1p_())
    return log_none.expm1_().neg_()


def planes(values: Tensor, event_shape: torch.Size, rows: slice = ALL) -> Tensor:
    """[..., (G,) K] as contiguous planes [(G) K, ...] in float64, of the given rows."""
    batch = values.shape[: max(0, values.dim() - len(event_shape))]
    parts = values.expand(*batch, *event_shape).flatten(len(batch)).movedim(-1, 0)
    if batch and batch[-1] > 1:
        parts = parts[..., rows]
    return torch.empty(parts.shape, dtype=torch.float64, device=values.device).copy_(parts)
