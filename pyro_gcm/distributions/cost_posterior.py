"""The exact posterior of the costs, given the outcome of their order event."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._shapes import broadcast_shapes
from pyro_gcm.distributions.families import cost_family
from pyro_gcm.distributions.infinite_cost import InfiniteCost
from pyro_gcm.distributions.numerics import first_terms, log1mexp, log_any

if TYPE_CHECKING:
    from pyro_gcm.distributions.order_event import OrderEvent

# The side of the revenue on which a draw has to lie. Its sign turns a hit into a miss.
BELOW, FREE, ABOVE = -1, 0, 1


class CostPosterior(TorchDistribution):
    """p(c | y, r) for independent costs and a known revenue, sampled exactly.

    For `y = 1` of one alternative every cost is truncated below its revenue. For `y = 0` the first
    coordinate that misses is drawn with the weights of the first-miss identity (`OrderEvent`); the
    costs before it are truncated below their revenue, its own from the revenue upwards, and the
    rest are free. With alternatives the same is done once more for the first one that hits. The
    atom of an `InfiniteCost` counts as one more coordinate, the first: if it misses, the row is
    infinite. Every draw agrees with the outcome after rounding, in float32 and in float64. The
    density is

        log p(c | y, r) = log p(c) + log Pr(y | c, r) - log Pr(y | r).

    :param event: an `OrderEvent` whose cost is a distribution and whose revenue is a tensor.
    :param outcome: the observed y, or the probability of y = 1 if it is not known for certain
        (as from a continuous response); broadcasts against `event.batch_shape`.
    :param log_outcome: the logarithms of `outcome` and of 1 - `outcome`, if they are known with
        more digits than `outcome` can hold.
    :raises ValueError: if the cost is a tensor or the revenue is random.
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
        batch_shape = broadcast_shapes(event.batch_shape, outcome.shape)
        self.event, self.outcome = event.expand(batch_shape), outcome.expand(batch_shape)
        self.log_outcome = log_outcome or (outcome.double().log(), torch.log1p(-outcome.double()))
        super().__init__(batch_shape, event.cost.event_shape, validate_args=validate_args)
        if self._validate_args and not ((outcome >= 0) & (outcome <= 1)).all():
            raise ValueError("outcome must lie in [0, 1]")

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        """The support of the cost; a draw that contradicts the outcome has density 0."""
        cost: Any = self.event.cost
        return cost.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> CostPosterior:
        """The same posterior with a larger batch shape."""
        outcome = self.outcome.expand(torch.Size(batch_shape))
        new = CostPosterior(self.event, outcome, log_outcome=self.log_outcome, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of a cost `[..., K]` or `[..., G, K]`; -inf where it contradicts the outcome."""
        if self._validate_args:
            self._validate_sample(value)
        log_zero, log_one = self.event.log_probs64()
        happened = self.event.given_cost(value).mean == 1.0
        log_outcome, log_other = self.log_outcome
        # Bayes' rule for the event, on which alone the outcome depends.
        log_ratio = torch.where(happened, log_outcome - log_one, log_other - log_zero)
        cost: Any = self.event.cost
        log_prior: Tensor = cost.log_prob(value)
        return log_prior + log_ratio.to(log_prior.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + event_shape`."""
        event, cost = self.event, self.event.cost
        shape = self._extended_shape(sample_shape)
        log_below, log_above = event.coordinate_log_probs()
        log_below, log_above = log_below.expand(shape), log_above.expand(shape)
        outcome = self.outcome.expand(shape[: len(shape) - len(self.event_shape)])
        uniform = torch.rand(outcome.shape, dtype=torch.float64, device=outcome.device)
        side = torch.where(uniform < outcome, BELOW, ABOVE)
        log_hit, log_miss = log_below, log_above
        if isinstance(cost, InfiniteCost):
            log_hit, log_miss = cost.prepend_atom(log_hit, log_miss)
        if len(self.event_shape) == 2:  # y = 1 of alternatives is a first hit, not a first miss
            side = -_draw_sides(-side, log_any(log_miss, log_hit), log_hit.sum(-1))
        sides = _draw_sides(side, log_hit, log_miss)
        infinite = None
        if isinstance(cost, InfiniteCost):
            atom, sides = sides[..., :1], sides[..., 1:]
            by_chance = cost.sample_infinite(atom.shape[:-1])[..., None]
            infinite = torch.where(atom == FREE, by_chance, atom == ABOVE)
        draw = truncated_sample(event.base_dist, log_below, log_above, sides).to(event.dtype)
        # Rounding to the dtype may cross the revenue: step back to the right side of it.
        revenue = event.point.to(draw.dtype)
        highest = torch.nextafter(revenue, revenue.new_tensor(-math.inf))
        draw = torch.where(sides == BELOW, torch.minimum(draw, highest), draw)
        draw = torch.where(sides == ABOVE, torch.maximum(draw, revenue), draw)
        return draw if infinite is None else draw.masked_fill(infinite, math.inf)


def _draw_sides(side: Tensor, log_below: Tensor, log_above: Tensor) -> Tensor:
    """Sides of the parts of each whole, along a new last dimension.

    A whole is below if all its parts are. If it is above, the first part above is drawn; the parts
    before it are below, and those after it are free, as are all parts of a free whole.

    :param side: sides of the wholes, [...].
    :param log_below: log-probability of each part to be below, [..., K].
    :param log_above: that of its complement.
    """
    terms = first_terms(log_above, log_below)
    gumbel = -torch.log(-torch.log(_uniform(terms)))
    first = (terms + gumbel).argmax(-1)[..., None]
    order = torch.arange(terms.shape[-1], device=terms.device)
    above = torch.where(order < first, BELOW, torch.where(order == first, ABOVE, FREE))
    return torch.where(side[..., None] == ABOVE, above, side[..., None])


def truncated_sample(base: Any, log_below: Tensor, log_above: Tensor, sides: Tensor) -> Tensor:
    """One float64 draw per coordinate, on its side of a point.

    :param base: univariate distribution of a registered cost family.
    :param log_below: log-probability of a draw below the point.
    :param log_above: that of a draw at the point or above it.
    :param sides: `BELOW`, `ABOVE` or `FREE` for every coordinate.
    """
    log_u = _uniform(log_below).log()
    log_part = log_u + torch.where(
        sides == BELOW, log_below, torch.where(sides == ABOVE, log_above, 0.0)
    )
    log_rest = log1mexp(log_part.clamp(max=0.0))
    above = sides == ABOVE
    log_p = torch.where(above, log_rest, log_part)
    log_q = torch.where(above, log_part, log_rest)
    return cost_family(type(base)).quantile(base, log_p, log_q)


def _uniform(like: Tensor) -> Tensor:
    """Uniform draws inside (0, 1), float64."""
    u = torch.rand(like.shape, dtype=torch.float64, device=like.device)
    return u.clamp(min=2.0**-54)
