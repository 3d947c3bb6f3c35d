"""The exact posterior of the costs, given where their event first occurs along an axis."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.cost_posterior import CostPosterior
from pyro_gcm.distributions.costs import InfiniteCost
from pyro_gcm.distributions.event_curve import (
    CensoredObservation,
    Censoring,
    EventCurve,
)
from pyro_gcm.distributions.families import cost_family, log_interval, tail_log_probs
from pyro_gcm.distributions.order_event import OrderEvent


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
        met = self.curve.same_position(worst, torch.zeros_like(worst), value.dtype)
        at = torch.where(met, slope.double().log(), -math.inf)
        return torch.where(observed.kind == Censoring.EXACT, at, log_p)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + event_shape`."""
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
        hits = torch.where(k, self._inside(low, high, shape), hits)
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

    def _inside(self, low: Tensor, high: Tensor, shape: torch.Size) -> Tensor:
        """Costs [*shape, G, K] between the revenues at two shifts."""
        base: Any = self.event.base_dist
        a, b = (self.event.revenue.double() + shift for shift in (low, high))
        log_inside = log_interval(base, a, b)
        v = torch.rand((*shape, *log_inside.shape[-len(self.event_shape) :]), dtype=torch.float64)
        v = v.to(log_inside.device)
        log_p = torch.logaddexp(tail_log_probs(base, a)[0], v.log() + log_inside)
        log_q = torch.logaddexp(tail_log_probs(base, b)[1], torch.log1p(-v) + log_inside)
        draw = cost_family(type(base)).quantile(base, log_p, log_q)
        dtype = self.event.dtype
        highest = torch.nextafter(b.to(dtype), torch.full_like(b, -math.inf, dtype=dtype))
        draw = torch.maximum(torch.minimum(draw.to(dtype), highest), a.to(dtype))
        return self.curve.rows(draw)
