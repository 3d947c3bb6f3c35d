"""The probability of an order event as one more revenue moves: a distribution function.

With one more revenue s, whose maps m_gk enter every cost, Pr(event at s) = Pr(any g: all k:
c_gk < r_gk + m_gk(s)) rises from 0 to 1 as s runs over the line. It is the distribution function of
the first s at which the event occurs: the time of an event, or with s = -t a whole distribution
(paper, Lemma 1). Here are its density and its differences as sums of positive terms,

    d/ds Pr = sum_gk  f_gk m'_gk  prod_{k' != k} hit_gk'  prod_{g' != g} miss_g'
    Pr(b) - Pr(a) = sum_gk  (F_gk(b) - F_gk(a))  prod_{k' < k} hit_gk'(b) prod_{k' > k} hit_gk'(a)
                                             prod_{g' < g} miss_g'(b) prod_{g' > g} miss_g'(a)

with hit_gk = Pr(c_gk < r_gk + m_gk) and miss_g = 1 - prod_k hit_gk: nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm.distributions.costs import prepend_atom
from pyro_gcm.distributions.families import log_interval
from pyro_gcm.distributions.numerics import in_transform, log_any, on_grid
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.products import aligned, planes

#: Positions [...] to the shifts of the revenues and their slopes, each [..., (G,) K], float64.
Axis = Callable[[Tensor], tuple[Tensor, Tensor]]


#: What was seen of the first position at which the event occurs: it itself, or that it lies above a
#: position (right-censored), below one (left-censored) or between two (interval-censored).
Censoring = IntEnum("Censoring", "EXACT RIGHT LEFT INTERVAL", start=0)


class CensoredObservation(NamedTuple):
    """An observation of the first position at which an event occurs, possibly censored.

    :param kind: a `Censoring`, int8, [...].
    :param low: shift at the position, or at the lower end, [..., (G,) K]; finite everywhere.
    :param high: shift at the upper end, above `low` where that is looked at.
    :param slope: of the shift at `low`.
    :param event_dim: dimensions of the costs: 1, or 2 with alternatives.
    """

    kind: Tensor
    low: Tensor
    high: Tensor
    slope: Tensor
    event_dim: int

    @classmethod
    def of_ends(
        cls, kind: Tensor, low: Tensor, high: Tensor, slope: Tensor, event_dim: int
    ) -> CensoredObservation:
        """The same from ends that may be anything finite where they are not looked at.

        There they are put in order, so that no branch that is not taken has a NaN in its gradient.
        """
        of_row = kind[(..., *[None] * event_dim)]
        high = torch.where(
            (of_row == Censoring.LEFT) | (of_row == Censoring.INTERVAL), high, low + 1.0
        )
        low = torch.where(of_row == Censoring.LEFT, high - 1.0, low)
        return cls(kind, low, high, slope, event_dim)

    def has(self, kind: int) -> bool:
        """Whether a row is of this kind, or may be; of no rows, and under `torch.func`, all are."""
        is_open = in_transform() or self.kind.is_meta or not self.kind.numel()
        return is_open or bool((self.kind == kind).any())

    @property
    def end(self) -> Tensor:
        """The end that is known: `high` where the position lies below it, else `low`."""
        of_row = self.kind[(..., *[None] * self.event_dim)]
        return torch.where(of_row == Censoring.LEFT, self.high, self.low)


class _Point(NamedTuple):
    """The revenues at one shift, and the probabilities of the event's parts there."""

    revenue: Tensor  # [..., (G,) K]
    hit: Tensor  # logarithms, of each cost [..., G, K]
    miss: Tensor  # and of each alternative [..., G]


class EventCurve:
    """The order event with all of its revenues shifted along an axis.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    """

    def __init__(self, event: OrderEvent) -> None:
        self.event = event

    def at(self, shift: Tensor) -> OrderEvent:
        """The event with this much, [..., (G,) K], added to its revenues."""
        revenue = self.event.revenue + shift
        if isinstance(self.event.cost, Tensor):
            return self.event.given_revenue(revenue)
        return self.event.with_revenue(revenue)

    def chance(self, axis: Axis, position: Tensor) -> Tensor:
        """Pr(event at positions), [...], float64, with gradients; `probability` keeps the order."""
        return self.at(axis(position)[0]).probabilities64()[1]

    @torch.no_grad()
    def probability(self, axis: Axis, position: Tensor) -> Tensor:
        """Pr(event at positions), [...], float64, without gradients.

        It rises with the position and with the revenues, rounding included: both are on a grid.
        """
        event = self.event
        if isinstance(event.cost, Tensor):
            return self.at(axis(position)[0]).probability64()
        # An axis may give its shifts one coordinate after another, without their slopes.
        known = getattr(axis, "planes", None)
        shift = planes(axis(position)[0], event.cost_shape) if known is None else known(position)
        points, shift = aligned(self._points, on_grid(shift))
        return event.rising.probability(points + shift)

    @cached_property
    def _points(self) -> Tensor:
        points: Tensor = self.event.points
        return points

    def log_prob(self, observed: CensoredObservation) -> Tensor:
        """log-probability of what was seen, a density by s where it is the position, float64."""
        kind, found = observed.kind, None
        if observed.has(Censoring.RIGHT) or observed.has(Censoring.LEFT):
            found = self.at(observed.end).log_prob64((kind == Censoring.LEFT).double())
        if observed.has(Censoring.INTERVAL):
            # Elsewhere any interval will do, but a far one would have no gradient.
            of_row = kind[(..., *[None] * observed.event_dim)] == Censoring.INTERVAL
            ends = torch.where(of_row, observed.low, 0.0), torch.where(of_row, observed.high, 1.0)
            part = self.log_between(*ends)
            found = part if found is None else torch.where(kind == Censoring.INTERVAL, part, found)
        if observed.has(Censoring.EXACT):
            part = self.log_density(observed.low, observed.slope)
            found = part if found is None else torch.where(kind == Censoring.EXACT, part, found)
        assert found is not None
        return found

    def log_density(self, shift: Tensor, slope: Tensor) -> Tensor:
        """log d Pr / ds, [...], float64.

        :param slope: derivatives of the shift by s, positive.
        """
        terms = self.log_density_terms(shift, slope)
        return terms.flatten(-2).logsumexp(-1)

    def log_density_terms(self, shift: Tensor, slope: Tensor) -> Tensor:
        """Its terms [..., G, K]: the cost that is met last of the alternative that occurs."""
        point = self._point(shift)
        own = self.rows(self.event.base_dist.log_prob(point.revenue) + slope.log())
        of_costs = own + _before(point.hit) + _after(point.hit)
        return of_costs + self._of_alternatives(_before(point.miss) + _after(point.miss))

    def log_between(self, low: Tensor, high: Tensor) -> Tensor:
        """log(Pr(high) - Pr(low)) for shifts low < high of every revenue, [...], float64."""
        return self.log_between_terms(low, high).flatten(-2).logsumexp(-1)

    def log_between_terms(self, low: Tensor, high: Tensor) -> Tensor:
        """Its terms [..., G, K]: the last cost in between of the first alternative to occur."""
        a, b = self._point(low), self._point(high)
        own = self.rows(log_interval(self.event.base_dist, a.revenue, b.revenue))
        of_costs = own + _before(b.hit) + _after(a.hit)
        return of_costs + self._of_alternatives(_before(b.miss) + _after(a.miss))

    def first_occurrence(self, axis: Axis, cost: Tensor) -> Tensor:
        """The smallest position [...] at which the event of known costs occurs; inf if none is."""
        revenue, alternatives = self.event.revenue, self.event.cost_event_dim == 2

        def lead(position: Tensor) -> Tensor:
            margin = (revenue + axis(position)[0] - cost).amin(-1)
            return margin.amax(-1) if alternatives else margin

        start = torch.zeros_like((revenue + cost)[(..., *[0] * self.event.cost_event_dim)]).double()
        return smallest_reaching(lead, 0.0, start, torch.ones_like(start))

    @staticmethod
    def same_position(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
        """Whether positions agree as far as costs of a dtype, and revenues on a grid, can tell."""
        tolerance = 2e3 * torch.finfo(dtype).eps + 1e-9
        return (a == b) | ((a - b).abs() <= tolerance * (1.0 + b.abs()))

    def rows(self, of_costs: Tensor) -> Tensor:
        """[..., (G,) K] with a dimension G, which is 1 without alternatives."""
        return of_costs if self.event.cost_event_dim == 2 else of_costs.unsqueeze(-2)

    def _of_alternatives(self, log_p: Tensor) -> Tensor:
        """log_p [..., G] and that the alternative is finite, as [..., G, 1]."""
        if self._logits is not None:
            log_p = log_p + logsigmoid(-self._logits.double())
        return log_p.unsqueeze(-1)

    @property
    def _logits(self) -> Tensor | None:
        """Log-odds of an infinite cost, [..., G], or None."""
        logits = self.event.logits
        return logits if logits is None or self.event.cost_event_dim == 2 else logits.unsqueeze(-1)

    def _point(self, shift: Tensor) -> _Point:
        event = self.at(shift)
        hit, miss = (self.rows(log_p) for log_p in event.coordinate_log_probs())
        parts = (hit, miss) if self._logits is None else prepend_atom(self._logits, hit, miss)
        return _Point(event.point.double(), hit, log_any(parts[1], parts[0]))


def _before(log_p: Tensor) -> Tensor:
    """Sums along the last dimension of what comes before each entry."""
    return pad(log_p[..., :-1].cumsum(-1), (1, 0))


def _after(log_p: Tensor) -> Tensor:
    """Sums along the last dimension of what comes after each entry."""
    return _before(log_p.flip(-1)).flip(-1)
