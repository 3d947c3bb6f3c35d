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

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.torch_state import in_transform
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.costs import InfiniteCost, prepend_atom
from pyro_gcm.distributions.families import draws_between, log_interval
from pyro_gcm.distributions.numerics import log_any
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.posteriors import CostPosterior
from pyro_gcm.distributions.products import aligned, on_grid, planes

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
        looked_at = (of_row == Censoring.LEFT) | (of_row == Censoring.INTERVAL)
        high = torch.where(looked_at, high, low + 1.0)
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


#: The revenues at one shift, and logarithms of the probabilities of the event's parts there: of
#: each cost to be below them [..., G, K], and of each alternative not to occur [..., G].
_Point = tuple[Tensor, Tensor, Tensor]


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

    @torch.no_grad()
    def probability(self, shift: Tensor) -> Tensor:
        """Pr(event with this much, [..., (G,) K], added to its revenues), float64, no gradients.

        It rises with the shift and with the revenues, rounding included: both are on a grid.
        """
        event = self.event
        if isinstance(event.cost, Tensor):
            return self.at(shift).probability64()
        points, shift = aligned(event.points, on_grid(planes(shift, event.cost_shape)))
        return event.rising.probability(points + shift)

    def log_prob(self, observed: CensoredObservation) -> Tensor:
        """log-probability of what was seen, a density by s where it is the position, float64."""
        kind, found = observed.kind, None
        if observed.has(Censoring.RIGHT) or observed.has(Censoring.LEFT):
            found = self.at(observed.end).log_prob64((kind == Censoring.LEFT).double())
        if observed.has(Censoring.INTERVAL):
            # Elsewhere any interval will do, but a far one would have no gradient.
            of_row = kind[(..., *[None] * observed.event_dim)] == Censoring.INTERVAL
            ends = torch.where(of_row, observed.low, 0.0), torch.where(of_row, observed.high, 1.0)
            part = self.log_between_terms(*ends).flatten(-2).logsumexp(-1)
            found = part if found is None else torch.where(kind == Censoring.INTERVAL, part, found)
        if observed.has(Censoring.EXACT):
            terms = self.log_density_terms(observed.low, observed.slope)
            part = terms.flatten(-2).logsumexp(-1)
            found = part if found is None else torch.where(kind == Censoring.EXACT, part, found)
        assert found is not None
        return found

    def log_density_terms(self, shift: Tensor, slope: Tensor) -> Tensor:
        """Terms [..., G, K] of log d Pr / ds: the cost met last of the alternative that occurs.

        :param slope: derivatives of the shift by s, positive.
        """
        point = self._point(shift)
        return self._terms(self.event.base_dist.log_prob(point[0]) + slope.log(), point, point)

    def log_between_terms(self, low: Tensor, high: Tensor) -> Tensor:
        """Terms [..., G, K] of log(Pr(high) - Pr(low)) for shifts low < high of every revenue.

        They are of the last cost in between of the first alternative to occur.
        """
        a, b = self._point(low), self._point(high)
        return self._terms(log_interval(self.event.base_dist, a[0], b[0]), b, a)

    def _terms(self, own: Tensor, before: _Point, after: _Point) -> Tensor:
        """Terms of costs with these log-probabilities, of which the others come before or after."""
        costs = self.rows(own) + _before(before[1]) + _after(after[1])
        alternatives = _before(before[2]) + _after(after[2])
        if self._logits is not None:
            alternatives = alternatives + logsigmoid(-self._logits.double())
        return costs + alternatives.unsqueeze(-1)

    def first_occurrence(self, axis: Axis, cost: Tensor) -> Tensor:
        """The smallest position [...] at which the event of known costs occurs; inf if none is."""
        revenue, alternatives = self.event.revenue, self.event.cost_event_dim == 2

        def lead(position: Tensor) -> Tensor:
            margin = (revenue + axis(position)[0] - cost).amin(-1)
            return margin.amax(-1) if alternatives else margin

        start = torch.zeros_like((revenue + cost)[(..., *[0] * self.event.cost_event_dim)]).double()
        return smallest_reaching(lead, 0.0, start, torch.ones_like(start))

    def rows(self, of_costs: Tensor) -> Tensor:
        """[..., (G,) K] with a dimension G, which is 1 without alternatives."""
        return of_costs if self.event.cost_event_dim == 2 else of_costs.unsqueeze(-2)

    @property
    def _logits(self) -> Tensor | None:
        """Log-odds of an infinite cost, [..., G], or None."""
        logits = self.event.logits
        return logits if logits is None or self.event.cost_event_dim == 2 else logits.unsqueeze(-1)

    def _point(self, shift: Tensor) -> _Point:
        event = self.at(shift)
        hit, miss = (self.rows(log_p) for log_p in event.coordinate_log_probs())
        parts = (hit, miss) if self._logits is None else prepend_atom(self._logits, hit, miss)
        return event.point.double(), hit, log_any(parts[1], parts[0])


def _before(log_p: Tensor) -> Tensor:
    """Sums along the last dimension of what comes before each entry."""
    return pad(log_p[..., :-1].cumsum(-1), (1, 0))


def _after(log_p: Tensor) -> Tensor:
    """Sums along the last dimension of what comes after each entry."""
    return _before(log_p.flip(-1)).flip(-1)


def same_position(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Whether positions agree as far as costs of a dtype, and revenues on a grid, can tell."""
    tolerance = 2e3 * torch.finfo(dtype).eps + 1e-9
    return (a == b) | ((a - b).abs() <= tolerance * (1.0 + b.abs()))


class CurvePosterior(Expandable):
    """p(c | where the event first occurs), sampled exactly.

    Above or below a position it is `CostPosterior` of the event there. At a position, or between
    two, one of the terms of `EventCurve` is drawn: the alternative that occurs, and the cost of it
    that is met last. At a position that cost equals its revenue, its others are truncated below
    theirs, and the other alternatives miss. Between two positions that cost lies between its two
    revenues, the costs before it below the higher and those after it below the lower one, while
    the alternatives before miss the higher revenues and those after miss the lower ones.

    The density at a position is with respect to that position and the costs that are free given it:
    log p(c) + log of the slope of the cost that is met - log-density of the position.

    :param curve: of an event whose cost is a distribution.
    :param observed: what was observed of the position.
    """

    #: That of the cost; a draw that contradicts what was observed has density 0.
    support = CostPosterior.support

    def __init__(
        self, curve: EventCurve, observed: CensoredObservation, *, validate_args: bool | None = None
    ) -> None:
        self.curve, self.observation = curve, observed
        self.event = event = curve.event
        batch_shape = broadcast_shapes(event.batch_shape, observed.kind.shape)
        super().__init__(batch_shape, event.cost.event_shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of costs [..., (G,) K]; -inf where they contradict what was observed."""
        self._check(value)
        log_ratio = self._log_prob_given(value) - self.curve.log_prob(self.observation)
        log_p = self.event.cost.log_prob(value)
        return self._wide(log_p + log_ratio.to(log_p.dtype))

    def _log_prob_given(self, value: Tensor) -> Tensor:
        """Log-probability of what was observed once the costs are known."""
        observed, event = self.observation, self.event

        def occurs(shift: Tensor) -> Tensor:
            return self.curve.at(shift).given_cost(value).mean == 1.0

        between = occurs(observed.high) & ~occurs(observed.low)
        beyond = occurs(observed.end) == (observed.kind == Censoring.LEFT)
        agrees = torch.where(observed.kind == Censoring.INTERVAL, between, beyond)
        log_p = agrees.double().log()
        if not observed.has(Censoring.EXACT):
            return log_p
        # The event occurs at the position if the margin of its costs, which is 0, would grow.
        margin = (event.revenue + observed.low).to(value.dtype) - value
        worst, which = margin.min(-1)
        slope = observed.slope.expand(margin.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
        if event.cost_event_dim == 2:
            worst, best = worst.max(-1)
            slope = slope.gather(-1, best.unsqueeze(-1)).squeeze(-1)
        met = same_position(worst, torch.zeros_like(worst), value.dtype)
        at = torch.where(met, slope.double().log(), -math.inf)
        return torch.where(observed.kind == Censoring.EXACT, at, log_p)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        observed, shape = self.observation, sample_shape + self.batch_shape
        draw = None
        if observed.has(Censoring.RIGHT) or observed.has(Censoring.LEFT):
            event = self.curve.at(observed.end)
            outcome = (observed.kind == Censoring.LEFT).double().expand(shape)
            draw = CostPosterior(event.expand(shape), outcome, validate_args=False).sample()
        for kind, sampler in (
            (Censoring.INTERVAL, self._sample_between),
            (Censoring.EXACT, self._sample_at),
        ):
            if observed.has(kind):
                chosen = (observed.kind == kind)[(..., *[None] * len(self.event_shape))]
                part = sampler(shape)
                draw = part if draw is None else torch.where(chosen, part, draw)
        assert draw is not None
        return draw

    def _sample_at(self, shape: torch.Size) -> Tensor:
        """Draws given the position, [*shape, (G,) K]."""
        low = self.observation.low
        point = self.curve.at(low).point.to(self.event.dtype)
        revenue = self.curve.rows(point.expand(*shape, *self.event_shape))
        g, k = self._drawn_term(self.curve.log_density_terms(low, self.observation.slope), shape)
        hits, misses = (self._one_by_one(low, shape, outcome) for outcome in (1.0, 0.0))
        hits = torch.where(k, revenue, hits)
        return torch.where(g.unsqueeze(-1), hits, misses).reshape(shape + self.event_shape)

    def _sample_between(self, shape: torch.Size) -> Tensor:
        """Draws given that the position lies between two, [*shape, (G,) K]."""
        low, high = self.observation.low, self.observation.high
        g, k = self._drawn_term(self.curve.log_between_terms(low, high), shape)
        below_high, below_low = (self._one_by_one(shift, shape, 1.0) for shift in (high, low))
        miss_high, miss_low = (self._one_by_one(shift, shape, 0.0) for shift in (high, low))
        before = k.flip(-1).cumsum(-1).flip(-1) > 0  # up to the chosen cost
        hits = torch.where(before, below_high, below_low)
        a, b = (self.event.revenue.double() + shift for shift in (low, high))
        whole = shape + self.event_shape
        inside = draws_between(self.event.base_dist, a, b, whole, self.event.dtype)
        hits = torch.where(k, self.curve.rows(inside), hits)
        earlier = (g.flip(-1).cumsum(-1).flip(-1) > 0).unsqueeze(-1)
        misses = torch.where(earlier, miss_high, miss_low)
        return torch.where(g.unsqueeze(-1), hits, misses).reshape(shape + self.event_shape)

    def _drawn_term(self, terms: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Which alternative [*shape, G] and which cost [*shape, G, K] a drawn term belongs to."""
        terms = terms.expand(*shape, *terms.shape[-2:])
        drawn = dist.OneHotCategorical(logits=terms.flatten(-2), validate_args=False).sample()
        chosen = drawn.bool().reshape(terms.shape)
        return chosen.any(-1), chosen

    def _one_by_one(self, shift: Tensor, shape: torch.Size, outcome: float) -> Tensor:
        """Costs [*shape, G, K] of every alternative for itself, given that it hits or misses."""
        event = self.curve.at(shift)
        cost: Any = event.base_dist.to_event(1)
        if event.logits is not None:
            cost = InfiniteCost(cost, event.logits, validate_args=False)
        alone = OrderEvent(cost, event.point, validate_args=False)
        rows = torch.Size((*shape, *self.event_shape[:-1]))
        given = torch.full(rows, outcome, device=event.device)
        draw = CostPosterior(alone.expand(rows), given, validate_args=False).sample()
        return self.curve.rows(draw)
