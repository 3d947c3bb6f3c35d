"""The probability of an order event in each of its forms: as products, logarithms and probits.

Products are the fastest and train; where they underflow, logarithms take over, for those elements
alone. The mean of products over draws is one function, which saves a tenth of the time.
Only planes (`event_planes`) keep the order of revenues to the last bit, and are what predicts.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.distributions.event_planes import planes_of
from pyro_gcm.distributions.event_probability import SMALLEST_PRODUCT, ProductForm
from pyro_gcm.distributions.families import cost_family, of_same_family, tail_log_probs
from pyro_gcm.distributions.infinite_cost import prepend_atom
from pyro_gcm.distributions.numerics import in_transform, log_any, probit
from pyro_gcm.distributions.standard_families import StandardFamily


class EventForms:
    """What `OrderEvent` computes from its cost and its revenue.

    A coordinate is random through `base_dist`, and the event asks on which side of `point` it
    lies; `base_dist` is None where cost and revenue are both tensors.
    """

    cost: Any
    revenue: Any
    cost_event_dim: int
    base_dist: Any
    point: Tensor
    device: torch.device
    batch_shape: torch.Size
    #: (K,) or (G, K), of cost and revenue together.
    cost_shape: torch.Size
    #: Log-odds of an infinite cost, [..., (G)], or None.
    logits: Tensor | None

    def log_probs64(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, each of shape `batch_shape`."""
        outcomes = torch.arange(2.0, device=self.device).reshape(2, *(1 for _ in self.batch_shape))
        log_zero, log_one = self.log_prob64(outcomes)
        return log_zero, log_one

    def log_prob64(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64.

        The logarithm of a probability up to 1/2, log1p of its complement above; in log form where
        the product form would lose digits.
        """
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return torch.where(value > 0.5, log_one, log_zero)
        zero, one = self.probabilities64()
        p, q = torch.where(value > 0.5, one, zero), torch.where(value > 0.5, zero, one)
        # Clamped, a branch that is not taken has a gradient of 0, as have elements to be replaced.
        from_p = p.clamp_min(SMALLEST_PRODUCT).log()
        log_p = torch.where(p <= q, from_p, torch.log1p(-q.clamp_max(0.5)))
        rare = p < SMALLEST_PRODUCT
        if not rare.is_meta and rare.any():
            log_zero, log_one = self._log_form(rare)
            happened = (value > 0.5).expand(rare.shape)[rare]
            log_p = log_p.masked_scatter(rare, torch.where(happened, log_one, log_zero))
        return log_p

    def probabilities64(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1) in float64, each of shape `batch_shape`.

        Both are right to a few ulp, relative, above 1e-260, and 0 with a gradient of 0 where they
        underflow; see `ProductForm`. A registered family has exp of `log_probs64`.
        """
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return log_zero.exp(), log_one.exp()
        zero, one = self._product_form(self._standard).probabilities()
        return zero.expand(self.batch_shape), one.expand(self.batch_shape)

    def probit64(self) -> Tensor:
        """Phi^-1(Pr(y = 1)) in float64, of shape `batch_shape`.

        For one Gaussian cost it is (r - c's mean) / scale itself.
        """
        base = self.base_dist
        one_gaussian = isinstance(base, torch.distributions.Normal) and self.cost_shape == (1,)
        if one_gaussian and self.logits is None and not isinstance(self.cost, Tensor):
            # An infinite revenue stays as it is, with a gradient of 0.
            point, infinite = self.point.double(), self.point.isinf()
            u = (point.masked_fill(infinite, 0.0) - base.loc.double()) / base.scale.double()
            u = torch.where(infinite, point.detach(), u)
            return u.squeeze(-1).expand(self.batch_shape)
        if self._standard is None:
            return probit(*reversed(self._log_form()))
        zero, one = self.probabilities64()
        smaller = torch.where(one < zero, one, zero)
        x = torch.special.ndtri(smaller.clamp_min(SMALLEST_PRODUCT))
        x = torch.where(one < zero, x, -x)
        rare = smaller < SMALLEST_PRODUCT
        if not rare.is_meta and rare.any():
            x = x.masked_scatter(rare, probit(*reversed(self._log_form(rare))))
        return x

    def log_mean_prob(self, value: Tensor) -> Tensor:
        """log of the mean of Pr(y = value) over the leftmost dimension, the draws, in float64.

        One logarithm a row. A draw whose probability underflows counts for nothing beside the
        others; a row of which all do is computed in log form.

        :param value: outcomes, of shape `batch_shape[1:]`.
        """
        draws = self.batch_shape[0]
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return torch.where(value > 0.5, log_one, log_zero).logsumexp(0) - math.log(draws)
        form = self._product_form(self._standard)
        loc = form.loc.expand(self.batch_shape + self.cost_shape)
        mean = form._replace(loc=loc).mean_probability(value > 0.5)
        rare = mean < SMALLEST_PRODUCT
        # A gradient of 0 for the rows that are replaced.
        log_mean = mean.clamp_min(SMALLEST_PRODUCT).log()
        if not rare.is_meta and rare.any():
            log_zero, log_one = self._log_form(rare.expand(self.batch_shape))
            zero, one = log_zero.view(draws, -1), log_one.view(draws, -1)
            log_p = torch.where(value[rare] > 0.5, one, zero)
            log_mean = log_mean.masked_scatter(rare, log_p.logsumexp(0) - math.log(draws))
        return log_mean

    @property
    def _standard(self) -> StandardFamily | None:
        """The family of the random side in product form, if it has one.

        Under `torch.func` everything is in log form, which has no step that depends on values.
        """
        if self.base_dist is None or in_transform():
            return None
        return cost_family(type(self.base_dist)).standard

    def _product_form(self, standard: StandardFamily) -> ProductForm:
        point, loc = self.point, self.base_dist.loc
        if isinstance(self.cost, Tensor):  # r > c is -r < -c, and the family is symmetric
            point, loc = -point, -loc
        alternatives = self.cost_event_dim == 2
        return ProductForm(standard, point, loc, self.base_dist.scale, self.logits, alternatives)

    def _log_form(self, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, from logarithms alone.

        :param where: elements to select, of a shape that ends in `batch_shape`; the result is a
            vector. All by default, and always for a certain event.
        """
        if self.base_dist is None:
            happened = (self.cost < self.revenue).all(-1)
            happened = happened.any(-1) if self.cost_event_dim == 2 else happened
            log_zero, log_one = (~happened).double().log(), happened.double().log()
        else:
            log_hit, log_miss = self.coordinate_log_probs(where)  # [..., (G,) K]
            logits = self.logits
            if where is not None and logits is not None:
                logits = _at(where, logits, self.cost_shape[:-1])
            alternatives = self.cost_event_dim == 2
            log_zero, log_one = _log_probs(log_hit, log_miss, logits, alternatives)
        if where is not None:
            return log_zero, log_one
        return log_zero.expand(self.batch_shape), log_one.expand(self.batch_shape)

    @torch.no_grad()
    def probability64(self) -> Tensor:
        """Pr(y = 1) in float64, of shape `batch_shape`, without logarithms and without gradients.

        It needs one error function for a Gaussian cost, where `log_probs64` needs two and two
        logarithms.
        """
        if isinstance(self.cost, Tensor):
            return self.log_probs64()[1].exp()
        return planes_of(self).probability64().expand(self.batch_shape)

    def coordinate_log_probs(self, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log Pr(c_k < r_k) and log Pr(c_k >= r_k) of every coordinate, float64, `[..., (G,) K]`.

        For an `InfiniteCost` these are the probabilities given that the cost is finite.

        :param where: elements of `batch_shape` to select, [n, (G,) K]; all by default.
        """
        base, point = self.base_dist, self.point
        if where is not None:
            loc, scale, point = (
                _at(where, v, self.cost_shape) for v in (base.loc, base.scale, point)
            )
            base = of_same_family(base, loc=loc, scale=scale)
        log_below, log_above = tail_log_probs(base, point)
        # Against a known cost it is the revenue that has to be above.
        return (log_above, log_below) if isinstance(self.cost, Tensor) else (log_below, log_above)


def _at(where: Tensor, values: Tensor, event_shape: torch.Size) -> Tensor:
    """The elements [n, ...] of values of this event shape that `where` selects."""
    return values.expand(where.shape + event_shape)[where]


def _log_probs(
    log_hit: Tensor, log_miss: Tensor, logits: Tensor | None, alternatives: bool
) -> tuple[Tensor, Tensor]:
    """log Pr(y = 0) and log Pr(y = 1), by the "first miss" identity.

    If not c < r, some coordinate is the first with c_i >= r_i, so that

        log Pr(c < r)     = sum_i log F_i
        log Pr(not c < r) = logsumexp_i [sum_{j<i} log F_j + log(1 - F_i)]

    with F_i = Pr(c_i < r_i); and over alternatives the same once more with the "first hit".

    :param log_hit: log F_i of every coordinate, float64, [..., (G,) K].
    :param log_miss: log(1 - F_i).
    :param logits: log-odds of an infinite cost, [..., (G)], or None.
    :param alternatives: whether there is a dimension G.
    """
    if logits is not None:
        log_hit, log_miss = prepend_atom(logits, log_hit, log_miss)
    log_one = log_hit.sum(-1)
    log_zero = log_any(log_miss, log_hit)  # the first miss
    if alternatives:
        log_one = log_any(log_one, log_zero)  # the first alternative that hits
        log_zero = log_zero.sum(-1)
    return log_zero, log_one
