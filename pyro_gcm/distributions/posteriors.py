"""Exact posteriors: of costs, or of a random revenue, given an event; of k given r = W k + dr."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.costs import InfiniteCost, finite_part, prepend_atom
from pyro_gcm.distributions.event_forms import SMALLEST_PRODUCT
from pyro_gcm.distributions.families import (
    base_distribution,
    cost_family,
)
from pyro_gcm.distributions.numerics import first_terms, log1mexp, log_any

# The side of the revenue on which a draw has to lie. Its sign turns a hit into a miss.
UPPER_TRUNCATED, UNTRUNCATED, LOWER_TRUNCATED = -1, 0, 1


class CostPosterior(Expandable):
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

    arg_constraints = {"outcome": constraints.unit_interval}

    def __init__(
        self,
        event: Any,
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

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The support of the cost; a draw that contradicts the outcome has density 0."""
        return self.event.cost.support

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of a cost `[..., K]` or `[..., G, K]`; -inf where it contradicts the outcome."""
        self._check(value)
        log_zero, log_one = self.event.log_probs64()
        happened = self.event.given_cost(value).mean == 1.0
        log_outcome, log_other = self.log_outcome
        # Bayes' rule for the event, on which alone the outcome depends.
        log_ratio = torch.where(happened, log_outcome - log_one, log_other - log_zero)
        log_prior = self.event.cost.log_prob(value)
        return self._wide(log_prior + log_ratio.to(log_prior.dtype))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + event_shape`."""
        event, cost = self.event, self.event.cost
        shape = self._extended_shape(sample_shape)
        outcome = self.outcome.expand(shape[: len(shape) - len(self.event_shape)])
        happens = _uniform(outcome.shape, outcome.device) < outcome
        side = LOWER_TRUNCATED + (UPPER_TRUNCATED - LOWER_TRUNCATED) * happens.to(torch.int8)
        below, above = self._tails()
        of_costs, of_alternatives = self._first_weights(below, above)
        if of_alternatives is not None:  # y = 1 is a first hit, not a first miss
            side = -_draw_sides(-side, of_alternatives)
        sides = _draw_sides(side, of_costs)
        infinite = None
        if isinstance(cost, InfiniteCost):
            atom, sides = sides[..., :1], sides[..., 1:]
            by_chance = cost.sample_infinite(atom.shape[:-1])[..., None]
            infinite = torch.where(atom == UNTRUNCATED, by_chance, atom == LOWER_TRUNCATED)
        draw = self._truncated(below, above, sides).to(event.dtype)
        # Rounding to the dtype may cross the revenue: step back to the right side of it.
        revenue = event.point.to(draw.dtype)
        highest = torch.nextafter(revenue, revenue.new_tensor(-math.inf))
        draw = torch.where(sides == UPPER_TRUNCATED, torch.minimum(draw, highest), draw)
        draw = torch.where(sides == LOWER_TRUNCATED, torch.maximum(draw, revenue), draw)
        return draw if infinite is None else draw.masked_fill(infinite, math.inf)

    def _first_weights(self, below: Tensor, above: Tensor) -> tuple[Tensor, Tensor | None]:
        """Cumulative weights of the first cost that misses and of the first alternative that hits.

        The costs are those of each alternative, [..., (G,) K], after the atom of an `InfiniteCost`;
        the alternatives have shape [..., G], None for one. Both are in product form, and in log
        form where that underflows in any row.
        """
        cost, has_alternatives = self.event.cost, len(self.event_shape) == 2
        if isinstance(cost, InfiniteCost):
            below, above = prepend_atom(cost.logits, below, above, torch.sigmoid)
        of_costs = _cumulative(above, below)
        miss = smallest = of_costs[..., -1]
        of_alternatives = None
        if has_alternatives:
            of_alternatives = _cumulative(below.prod(-1), miss)
            smallest = torch.minimum(miss.amin(-1), of_alternatives[..., -1])
        if not _any(smallest < SMALLEST_PRODUCT):
            return of_costs, of_alternatives
        log_below, log_above = self.event.coordinate_log_probs()
        if isinstance(cost, InfiniteCost):
            log_below, log_above = prepend_atom(cost.logits, log_below, log_above)
        of_costs = _cumulative_of_logs(log_above, log_below)
        if has_alternatives:
            log_miss = log_any(log_above, log_below)
            of_alternatives = _cumulative_of_logs(log_below.sum(-1), log_miss)
        return of_costs, of_alternatives

    def _tails(self) -> tuple[Tensor, Tensor]:
        """Pr(c_k < r_k) and Pr(c_k >= r_k) of every coordinate, float64."""
        event, base = self.event, self.event.base_dist
        if event.standard is None:
            log_below, log_above = event.coordinate_log_probs()
            return log_below.exp(), log_above.exp()
        u = (event.point.double() - base.loc.double()) / base.scale.double()
        return event.standard.tails(u)

    def _truncated(self, below: Tensor, above: Tensor, sides: Tensor) -> Tensor:
        """One float64 draw per coordinate, on its side of the revenue."""
        event, is_above = self.event, sides == LOWER_TRUNCATED
        base: Any = event.base_dist
        mass = torch.where(sides == UPPER_TRUNCATED, below, torch.where(is_above, above, 1.0))
        if event.standard is None or _any(mass < SMALLEST_PRODUCT):
            log_below, log_above = event.coordinate_log_probs()
            return truncated_sample(base, log_below, log_above, sides)
        u = event.standard.quantile(_uniform(mass.shape, mass.device).mul_(mass))
        return torch.where(is_above, -u, u).mul_(base.scale).add_(base.loc)


def _any(mask: Tensor) -> bool:
    return not mask.is_meta and bool(mask.any())


def _cumulative(hit: Tensor, miss: Tensor) -> Tensor:
    """Pr(the first part that hits is at most i), along the last dimension.

    Sums and products of positive terms: right to a few ulp, relative, until they underflow.
    """
    sums, before = [hit[..., 0]], miss[..., 0]
    for i in range(1, hit.shape[-1]):
        sums.append(torch.addcmul(sums[-1], hit[..., i], before))
        before = before * miss[..., i]
    return torch.stack(sums, -1)


def _cumulative_of_logs(log_hit: Tensor, log_miss: Tensor) -> Tensor:
    """The same from logarithms, in proportion to it."""
    terms = first_terms(log_hit, log_miss)
    largest = terms.amax(-1, keepdim=True)
    # Where no part can hit, all of them alike.
    return torch.exp(terms - largest).masked_fill(largest == -math.inf, 1.0).cumsum(-1)


def _draw_sides(side: Tensor, first: Tensor) -> Tensor:
    """Sides of the parts of each whole, along a new last dimension.

    A whole is below if all its parts are. If it is above, the first part above is drawn; the parts
    before it are below, and those after it are free, as are all parts of a free whole.

    :param side: sides of the wholes, [...], int8.
    :param first: cumulative weights of the part that is the first above, [..., K].
    """
    at = _uniform(side.shape, side.device).mul_(first[..., -1])  # below the last weight
    at.masked_fill_(side == UPPER_TRUNCATED, math.inf).masked_fill_(side == UNTRUNCATED, -1.0)
    passed = (first <= at[..., None]).to(torch.int8)
    reached = torch.cat([(side != UNTRUNCATED).to(torch.int8)[..., None], passed[..., :-1]], -1)
    return reached - 2 * passed


def truncated_sample(base: Any, log_below: Tensor, log_above: Tensor, sides: Tensor) -> Tensor:
    """One float64 draw per coordinate, on its side of a point.

    :param base: univariate distribution of a registered cost family.
    :param log_below: log-probability of a draw below the point.
    :param log_above: that of a draw at the point or above it.
    :param sides: `UPPER_TRUNCATED`, `LOWER_TRUNCATED` or `UNTRUNCATED` for every coordinate.
    """
    log_u = _uniform(sides.shape, log_below.device).log()
    above = sides == LOWER_TRUNCATED
    truncated = torch.where(above, log_above, 0.0)
    log_part = log_u + torch.where(sides == UPPER_TRUNCATED, log_below, truncated)
    log_rest = log1mexp(log_part.clamp(max=0.0))
    log_p = torch.where(above, log_rest, log_part)
    log_q = torch.where(above, log_part, log_rest)
    return cost_family(type(base)).quantile(base, log_p, log_q)


def _uniform(shape: torch.Size, device: torch.device) -> Tensor:
    """Uniform draws inside (0, 1), float64."""
    return torch.rand(shape, dtype=torch.float64, device=device).clamp_(min=2.0**-54)


class RevenuePosterior(Expandable):
    """p(k | y) for independent Gaussian k and c, where y = 1 if c < k.

    It is sampled exactly: first d = c - k from its posterior, whose coordinates are truncated at
    0, then k given d, a linear Gaussian regression. The density is that of Bayes' rule,

        log p(k | y) = log p(k) + log Pr(y | k) - log Pr(y).

    :param event: `OrderEvent` of a cost (also an `InfiniteCost`) and a revenue that are both
        distributions.
    :param outcome: the observed y in {0, 1}; broadcasts against `event.batch_shape`.
    :raises ValueError: if an outcome is not 0 or 1.
    """

    arg_constraints = {"outcome": constraints.boolean}
    support = constraints.real_vector

    def __init__(self, event: Any, outcome: Tensor, *, validate_args: bool | None = None) -> None:
        batch_shape = broadcast_shapes(event.batch_shape, outcome.shape)
        self.event, self.outcome = event.expand(batch_shape), outcome.expand(batch_shape)
        super().__init__(batch_shape, event.revenue.event_shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Density of a revenue `[..., K]`."""
        self._check(value)
        given = self.event.given_revenue(value)
        log_ratio = given.log_prob(self.outcome) - self.event.log_prob(self.outcome)
        return self._wide(self.event.revenue.log_prob(value) + log_ratio)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + [K]`."""
        cost = base_distribution(finite_part(self.event.cost))
        revenue = base_distribution(self.event.revenue)
        loc, variance = revenue.loc.double(), revenue.scale.double().square()
        total = variance + cost.scale.double().square()
        d = self.event.difference().cost_posterior(self.outcome).expand(self.batch_shape)
        d = d.sample(sample_shape)  # of c - k
        share = variance / total
        residual = (variance * (1.0 - share)).sqrt()
        shift = -share * (d - (cost.loc.double() - loc))
        # k does not depend on y given an infinite cost.
        shift = torch.where(d.isinf(), 0.0, shift)
        residual = torch.where(d.isinf(), variance.sqrt(), residual)
        draw = loc + shift + residual * torch.randn(d.shape, dtype=d.dtype, device=d.device)
        return draw.to(self.event.dtype)


def linear_gaussian_posterior(prior: Any, loading: Tensor, noise: Any, value: Tensor) -> Any:
    """p(k | r) for r = W k + dr, k ~ prior and dr ~ noise, normal with independent coordinates.

    With W of shape [m, K] the posterior precision is S_k^-1 + W' S_r^-1 W. It is correlated even
    if prior and noise are not, so the result is a `MultivariateNormal`, except for K = 1.

    :param prior: normal of batch shape [...] and event shape [K].
    :param loading: W, [m, K].
    :param noise: normal of batch shape [...] and event shape [m].
    :param value: r, [..., m].
    """
    k, dr = coordinates(prior), coordinates(noise)
    precision_k, precision_r = k.scale**-2, dr.scale**-2
    weighted = loading.mT * precision_r.unsqueeze(-2)  # W' S_r^-1, [..., K, m]
    shift = (weighted @ (value - dr.loc).unsqueeze(-1)).squeeze(-1) + precision_k * k.loc
    precision = weighted @ loading + torch.diag_embed(precision_k)
    if loading.shape[-1] == 1:
        variance = 1.0 / precision.squeeze(-1)
        return dist.Normal(variance * shift, variance.sqrt()).to_event(1)
    factor = torch.linalg.cholesky(precision)
    loc = torch.cholesky_solve(shift.unsqueeze(-1), factor).squeeze(-1)
    covariance = torch.cholesky_inverse(factor)
    return dist.MultivariateNormal(loc, scale_tril=torch.linalg.cholesky(covariance))


def coordinates(distribution: Any) -> Any:
    """The distribution under `.to_event`."""
    while isinstance(distribution, torch.distributions.Independent):
        distribution = distribution.base_dist
    return distribution
