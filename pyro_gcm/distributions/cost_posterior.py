"""The exact posterior of the costs, given the outcome of their order event."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm.distributions.families import CostFamily, base_distribution, cost_family
from pyro_gcm.distributions.infinite_cost import InfiniteCost, finite_part, prepend_atom
from pyro_gcm.distributions.numerics import first_terms, log1mexp, log_any

if TYPE_CHECKING:
    from pyro_gcm.distributions.order_event import OrderEvent

# What a draw has to do at a coordinate: stay below the revenue, reach it, or be left alone.
BELOW, ABOVE, FREE = 0, 1, 2


class CostPosterior(TorchDistribution):
    """p(c | y, r) for independent costs and a known revenue, sampled exactly.

    For `y = 1` of one alternative every cost is truncated below its revenue. For `y = 0` the first
    coordinate that misses is drawn from the weights of the first-miss identity (`OrderEvent`); the
    costs before it are truncated below their revenue, its own from the revenue upwards, the rest
    are free. Over alternatives the same is done once more: the first alternative that hits. The
    atom of an `InfiniteCost` is one more coordinate, the first: if it misses, the row is infinite.
    Every draw agrees with the outcome after rounding, in float32 as in float64. The density is

        log p(c | y, r) = log p(c) + log Pr(y | c, r) - log Pr(y | r).

    :param event: an `OrderEvent` whose cost is a distribution and whose revenue is a tensor.
    :param outcome: the observed y, or the probability of y = 1 where it is not known for certain
        (a continuous response gives the event only so); broadcasts against `event.batch_shape`.
    :param log_outcome: the logarithms of `outcome` and of 1 - `outcome`, where the caller has them
        with more digits than `outcome` can hold.
    :raises ValueError: if the cost is a tensor already or the revenue is random.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        event: OrderEvent,
        outcome: Tensor,
        *,
        log_outcome: tuple[Tensor, Tensor] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(event.cost, Tensor) or not isinstance(event.revenue, Tensor):
            raise ValueError(
                "event must have a distribution as its cost and a tensor as its revenue, got "
                f"{type(event.cost).__name__} and {type(event.revenue).__name__}"
            )
        batch_shape = torch.broadcast_shapes(event.batch_shape, outcome.shape)
        self.event = event.expand(batch_shape)
        self.outcome = outcome.expand(batch_shape)
        self.log_outcome = log_outcome or (outcome.double().log(), torch.log1p(-outcome.double()))
        super().__init__(batch_shape, event.cost.event_shape, validate_args=validate_args)
        if self._validate_args and not ((outcome >= 0) & (outcome <= 1)).all():
            raise ValueError("outcome must lie in [0, 1]")

    @property
    def support(self) -> constraints.Constraint:
        """All of R^K; draws that contradict the outcome have density 0."""
        return constraints.independent(constraints.real, len(self.event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> CostPosterior:
        """The same posterior with a larger batch shape."""
        batch_shape = torch.Size(batch_shape)
        new = CostPosterior(
            self.event.expand(batch_shape),
            self.outcome.expand(batch_shape),
            log_outcome=self.log_outcome,
            validate_args=False,
        )
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of a cost `[..., K]` or `[..., G, K]`; -inf where it contradicts the outcome."""
        if self._validate_args:
            self._validate_sample(value)
        log_zero, log_one = self.event.log_probs64()
        happened = self.event.given_cost(value).mean == 1.0
        log_outcome, log_other = self.log_outcome
        # Bayes for the event, which is all that the outcome says about the cost.
        log_ratio = torch.where(happened, log_outcome - log_one, log_other - log_zero)
        cost: Any = self.event.cost
        log_prior: Tensor = cost.log_prob(value)
        return log_prior + log_ratio.to(log_prior.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + event_shape`."""
        cost, revenue = self.event.cost, self.event.revenue
        shape = self._extended_shape(sample_shape)
        log_below, log_above = (term.expand(shape) for term in self.event.coordinate_log_probs())
        outcome = self.outcome.expand(shape[: len(shape) - len(self.event_shape)])
        uniform = torch.rand(outcome.shape, dtype=torch.float64, device=outcome.device)
        happened = uniform < outcome
        log_hit, log_miss = prepend_atom(cost, log_below, log_above)
        if len(self.event_shape) == 2:
            # Index of the first alternative that hits.
            hit = _first(log_hit.sum(-1), log_any(log_miss, log_hit))
            order = torch.arange(shape[-2], device=hit.device)
            state = torch.where(order < hit[..., None], ABOVE, FREE)
            state = torch.where(order == hit[..., None], BELOW, state)
            state = torch.where(happened[..., None], state, ABOVE)
        else:
            state = torch.where(happened, BELOW, ABOVE)
        sides = _coordinate_sides(state, log_hit, log_miss)
        infinite = None
        if isinstance(cost, InfiniteCost):
            atom, sides = sides[..., :1], sides[..., 1:]
            by_chance = cost.sample_infinite(atom.shape[:-1])[..., None]
            infinite = torch.where(atom == FREE, by_chance, atom == ABOVE)
        base = base_distribution(finite_part(cost).expand(self.batch_shape))
        draw = truncated_sample(cost_family(type(base)), base, log_below, log_above, sides)
        draw = draw.to(self.event.dtype)
        revenue = revenue.to(draw.dtype)
        # Rounding to the dtype may cross the revenue: step back to the right side of it.
        highest = torch.nextafter(revenue, revenue.new_tensor(-math.inf))
        draw = torch.where(sides == BELOW, torch.minimum(draw, highest), draw)
        draw = torch.where(sides == ABOVE, torch.maximum(draw, revenue), draw)
        return draw if infinite is None else draw.masked_fill(infinite, math.inf)


def _first(log_hit: Tensor, log_miss: Tensor) -> Tensor:
    """Index of the first event that happens, given that one does, along the last dimension."""
    terms = first_terms(log_hit, log_miss)
    gumbel = -torch.log(-torch.log(_uniform(terms)))
    return (terms + gumbel).argmax(-1)


def _coordinate_sides(state: Tensor, log_below: Tensor, log_above: Tensor) -> Tensor:
    """Side of each coordinate: `state` says of a whole row that it hits, misses or is free."""
    miss = _first(log_above, log_below)[..., None]
    order = torch.arange(log_below.shape[-1], device=miss.device)
    missed = torch.where(order < miss, BELOW, FREE)
    missed = torch.where(order == miss, ABOVE, missed)
    return torch.where(state[..., None] == ABOVE, missed, state[..., None])


def truncated_sample(
    family: CostFamily, base: Any, log_below: Tensor, log_above: Tensor, sides: Tensor
) -> Tensor:
    """One float64 draw per coordinate, on its side of the point with these tail probabilities."""
    log_u = _uniform(log_below).log()
    log_part = log_u + torch.where(
        sides == BELOW, log_below, torch.where(sides == ABOVE, log_above, 0.0)
    )
    log_rest = log1mexp(log_part.clamp(max=0.0))
    above = sides == ABOVE
    log_p = torch.where(above, log_rest, log_part)
    log_q = torch.where(above, log_part, log_rest)
    return family.quantile(base, log_p, log_q)


def _uniform(like: Tensor) -> Tensor:
    """Uniform draws inside (0, 1), float64."""
    u = torch.rand(like.shape, dtype=torch.float64, device=like.device)
    return u.clamp(min=2.0**-54)
