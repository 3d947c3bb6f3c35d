"""The probability of an order event in each of its forms: as products, logarithms and probits.

With Pr(c_k < r_k) = up_k and Pr(c_k >= r_k) = down_k the event has the probability

    hit  = up_1 ... up_K
    miss = down_1 + up_1 (down_2 + up_2 (... down_K))

which are sums and products of positive terms: both are right to a few ulp, relative, until they
underflow. Over alternatives the same holds once more, with hits and misses exchanged, and an atom
at infinity is one more coordinate. Neither needs a logarithm, and the gradient of hit in u_k is
phi(u_k) hit / up_k, so that the backward pass needs one density and no other error function.

Products are the fastest and train; where they underflow, logarithms take over, for those elements
alone. Only `probability64` and `rising_probit64` keep the order of revenues to the last bit, and
predict.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.event_sides import prepend_atom
from pyro_gcm.distributions.families import (
    StandardFamily,
    cost_family,
    of_same_family,
    parameters_of,
    tail_log_probs,
)
from pyro_gcm.distributions.numerics import in_transform, log_any, on_grid, probit
from pyro_gcm.distributions.rising import Rising, from_planes, planes

#: Below this probability the product form may have lost digits, and the log form takes its place.
SMALLEST_PRODUCT = 1e-260
_TINY = 1e-300


class EventForms(Expandable):
    """The computations of `OrderEvent` from its cost and its revenue.

    A coordinate is random through `base_dist`, and the event asks on which side of `point` it
    lies; `base_dist` is None where cost and revenue are both tensors.
    """

    cost: Any
    revenue: Any
    cost_event_dim: int
    base_dist: Any
    point: Tensor
    device: torch.device
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
            return self._log_form_of(value)
        zero, one = self.probabilities64()
        p, q = torch.where(value > 0.5, one, zero), torch.where(value > 0.5, zero, one)
        # Clamped, a branch that is not taken has a gradient of 0, as have elements to be replaced.
        from_p = p.clamp_min(SMALLEST_PRODUCT).log()
        log_p = torch.where(p <= q, from_p, torch.log1p(-q.clamp_max(0.5)))
        return _where_rare(log_p, p, lambda rare: self._log_form_of(value, rare))

    def probabilities64(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1) in float64, each of shape `batch_shape`.

        Both are right to a few ulp, relative, above 1e-260, and 0 with a gradient of 0 where they
        underflow; they are differentiable twice. A registered family has exp of `log_probs64`.
        """
        if self._standard is None:
            log_zero, log_one = self._log_form()
            return log_zero.exp(), log_one.exp()
        point, loc = self.point.double(), self.base_dist.loc
        if isinstance(self.cost, Tensor):  # r > c is -r < -c, and the family is symmetric
            point, loc = -point, -loc
        options = self._standard, self.cost_event_dim == 2
        zero, one = _Probabilities.apply(*options, point, loc, self.base_dist.scale, self.logits)
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
        return _where_rare(x, smaller, lambda rare: probit(*reversed(self._log_form(rare))))

    def log_mean_prob(self, value: Tensor) -> Tensor:
        """log of the mean of Pr(y = value) over the leftmost dimension, the draws, in float64.

        One logarithm a row. A draw whose probability underflows counts for nothing beside the
        others; a row of which all do is computed in log form.

        :param value: outcomes, of shape `batch_shape[1:]`.
        """
        draws = self.batch_shape[0]
        if self._standard is None:
            return self._log_form_of(value).logsumexp(0) - math.log(draws)

        def in_logs(rare: Tensor) -> Tensor:
            log_p = self._log_form_of(value, rare.expand(self.batch_shape))
            return log_p.view(draws, -1).logsumexp(0) - math.log(draws)

        zero, one = self.probabilities64()
        mean = torch.where(value > 0.5, one, zero).mean(0)
        # A gradient of 0 for the rows that are replaced.
        return _where_rare(mean.clamp_min(SMALLEST_PRODUCT).log(), mean, in_logs)

    @property
    def _standard(self) -> StandardFamily | None:
        """The family of the random side in product form, if it has one.

        Under `torch.func` everything is in log form, which has no step that depends on values.
        """
        if self.base_dist is None or in_transform():
            return None
        return cost_family(type(self.base_dist)).standard

    def _log_form(self, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1) in float64, by the "first miss" identity.

        If not c < r, some coordinate is the first with c_i >= r_i, so that with F_i = Pr(c_i < r_i)

            log Pr(c < r)     = sum_i log F_i
            log Pr(not c < r) = logsumexp_i [sum_{j<i} log F_j + log(1 - F_i)]

        and over alternatives the same once more with the "first hit".

        :param where: elements to select, of a shape that ends in `batch_shape`; the result is a
            vector. All by default, and always for a certain event.
        """
        if self.base_dist is None:
            happened = (self.cost < self.revenue).all(-1)
            happened = happened.any(-1) if self.cost_event_dim == 2 else happened
            log_zero, log_one = (~happened).double().log(), happened.double().log()
        else:
            log_hit, log_miss = self.coordinate_log_probs(where)  # [..., (G,) K]
            if self.logits is not None:
                logits = _at(where, self.logits, self.cost_shape[:-1])
                log_hit, log_miss = prepend_atom(logits, log_hit, log_miss)
            log_one, log_zero = log_hit.sum(-1), log_any(log_miss, log_hit)
            if self.cost_event_dim == 2:
                log_one, log_zero = log_any(log_one, log_zero), log_zero.sum(-1)
        if where is not None:
            return log_zero, log_one
        return log_zero.expand(self.batch_shape), log_one.expand(self.batch_shape)

    def _log_form_of(self, value: Tensor, where: Tensor | None = None) -> Tensor:
        """log Pr(y = value) in float64 from `_log_form`, of the elements that `where` selects."""
        log_zero, log_one = self._log_form(where)
        happened = value > 0.5 if where is None else (value > 0.5).expand(where.shape)[where]
        return torch.where(happened, log_one, log_zero)

    # What predictions read

    @cached_property
    def odds64(self) -> Tensor | None:
        """The odds of an infinite cost, [..., (G)]."""
        return None if self.logits is None else self.logits.double().exp()

    @cached_property
    def rising(self) -> Rising:
        """What does not depend on the revenue; events `with_revenue` share it."""
        return Rising(self)

    @property
    def points(self) -> Tensor:
        """The revenues as `Rising` takes them."""
        return planes(on_grid(self.point), self.cost_shape)

    @torch.no_grad()
    def probability64(self) -> Tensor:
        """Pr(y = 1) in float64, of shape `batch_shape`, in steps that rise with every revenue."""
        if isinstance(self.cost, Tensor):
            return self.log_probs64()[1].exp()
        return self.rising.probability(self.points).expand(self.batch_shape)

    @torch.no_grad()
    def rising_probit64(self) -> Tensor:
        """Phi^-1 of it in float64, in steps that rise with every revenue."""
        points = self.points

        def log_probs() -> tuple[Tensor, Tensor]:
            return self.with_revenue(from_planes(points, self.cost_shape)).log_probs64()

        return self.rising.probit(points, log_probs).expand(self.batch_shape)

    @property
    def event(self) -> Any:
        """Itself, as an outcome has one."""
        return self

    def with_revenue(self, revenue: Tensor) -> Any:
        """The same event at other values of what is known, [..., (G,) K], which are not checked."""
        if not torch.is_grad_enabled():
            self.rising  # noqa: B018  (which the copy has as well)
        new, dims = copy.copy(self), len(self.cost_shape)
        new.revenue = new.point = revenue
        shapes = [v.shape[: v.dim() - dims] for v in (revenue, *_parameters(self.base_dist))]
        if self.logits is not None:
            shapes.append(self.logits.shape[: self.logits.dim() - dims + 1])
        new._batch_shape = broadcast_shapes(*shapes)
        return new

    @property
    def has_rows(self) -> bool:
        """Whether rows of the last batch dimension can be computed apart, with the same bits."""
        return bool(parameters_of(self.base_dist)) if self.base_dist is not None else False

    def of_rows(self, rows: slice) -> Any:
        """The event of some rows of the last batch dimension, for its probabilities alone."""
        new, dims = copy.copy(self), len(self.cost_shape)
        new.__dict__.pop("rising", None)
        known = parameters_of(self.base_dist)
        new.base_dist = of_same_family(
            self.base_dist, **{name: some(value, rows, dims) for name, value in known.items()}
        )
        if self.odds64 is not None and self.logits is not None:
            new.__dict__["odds64"] = some(self.odds64, rows, dims - 1)
            new.logits = some(self.logits, rows, dims - 1)
        new.revenue = new.point = some(self.point, rows, dims)
        count = len(range(self.batch_shape[-1])[rows])
        new._batch_shape = torch.Size((*self.batch_shape[:-1], count))
        return new

    def coordinate_log_probs(self, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log Pr(c_k < r_k) and log Pr(c_k >= r_k) of every coordinate, float64, `[..., (G,) K]`.

        For an `InfiniteCost` these are the probabilities given that the cost is finite.

        :param where: elements of `batch_shape` to select, [n, (G,) K]; all by default.
        """
        base, point = self.base_dist, self.point
        if where is not None:
            parts = base.loc, base.scale, point
            loc, scale, point = (_at(where, v, self.cost_shape) for v in parts)
            base = of_same_family(base, loc=loc, scale=scale)
        log_below, log_above = tail_log_probs(base, point)
        # Against a known cost it is the revenue that has to be above.
        return (log_above, log_below) if isinstance(self.cost, Tensor) else (log_below, log_above)


def some(values: Tensor, rows: slice, event_dim: int = 0) -> Tensor:
    """Some rows of values [..., B, *event], which may also be the same for all rows."""
    if values.dim() <= event_dim or values.shape[-1 - event_dim] == 1:
        return values
    index: Any = (..., rows, *[slice(None)] * event_dim)
    found: Tensor = values[index]
    return found


def _parameters(base: Any) -> list[Tensor]:
    return [getattr(base, name) for name in base.arg_constraints]


def _where_rare(values: Tensor, p: Tensor, by: Callable[[Tensor], Tensor]) -> Tensor:
    """The values, replaced where the product form of p has lost digits: by what `by` gives there.

    :param by: mask of the shape of p -> a vector of the elements that it selects.
    """
    rare = p < SMALLEST_PRODUCT
    return values if rare.is_meta or not rare.any() else values.masked_scatter(rare, by(rare))


def _at(where: Tensor | None, values: Tensor, event_shape: torch.Size) -> Tensor:
    """The elements [n, ...] of values of this event shape that `where` selects, or all of them."""
    return values if where is None else values.expand(where.shape + event_shape)[where]


def all_and_any(up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities that all of independent events happen, and that at least one does not.

    :param up: their probabilities, [..., K]; `down`: those of the complements.
    """
    some = down[..., -1]
    for k in range(up.shape[-1] - 2, -1, -1):
        some = torch.addcmul(down[..., k], up[..., k], some)
    # The rounding of the sum must not lift a probability above 1.
    return up.prod(-1), some.clamp_max(1.0)


class _Parts(NamedTuple):
    """Intermediate results that the gradient needs."""

    u: Tensor  # [..., (G,) K]
    inverse: Tensor  # 1 / scale
    up: Tensor
    hit: Tensor  # [..., (G)]
    miss: Tensor
    zero: Tensor  # [...]
    one: Tensor


def _evaluate(
    standard: StandardFamily,
    alternatives: bool,
    point: Tensor,
    loc: Tensor,
    scale: Tensor,
    logits: Tensor | None,
) -> _Parts:
    inverse = scale.double().reciprocal()
    u = (point - loc.double()).mul_(inverse)
    up, down = standard.tails(u)
    hit, miss = all_and_any(up, down)
    if logits is not None:
        finite = torch.sigmoid(-logits.double())
        hit, miss = finite * hit, torch.sigmoid(logits.double()) + finite * miss
    zero, one = all_and_any(miss, hit) if alternatives else (miss, hit)
    return _Parts(u, inverse, up, hit, miss, zero, one)


class _Probabilities(torch.autograd.Function):
    """Pr(y = 0) and Pr(y = 1) from point, loc, scale [..., (G,) K] and logits [..., (G)]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        parts = _evaluate(*inputs)
        ctx.options = inputs[:2]
        ctx.save_for_backward(*inputs[2:], *parts)
        return parts.zero, parts.one

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        # Pr(y = 0) = 1 - Pr(y = 1): every derivative is that of Pr(y = 1).
        by_one = grad_outputs[1] - grad_outputs[0]
        inputs, (standard, alternatives) = ctx.saved_tensors[:4], ctx.options
        point, loc, scale, logits = inputs
        # Second derivatives go through the inputs, so that the parts are computed from them anew.
        again = torch.is_grad_enabled()
        parts = _evaluate(*ctx.options, *inputs) if again else _Parts(*ctx.saved_tensors[4:])
        if alternatives:
            by_one = (by_one * parts.zero).unsqueeze(-1) / parts.miss.clamp_min(_TINY)
        by_row = by_one * parts.hit
        by_u = standard.pull(by_row.unsqueeze(-1), parts.u, parts.up)
        by_point = by_u.mul_(parts.inverse)
        for_point, for_loc, for_scale, for_logits = ctx.needs_input_grad[-4:]
        by_scale = by_logits = None
        if for_scale:
            # An infinite point has slope 0.
            u = parts.u.masked_fill(parts.u.isinf(), 0.0) if point.isinf().any() else parts.u
            by_scale = -_like(scale, by_point * u)
        if for_logits:
            by_logits = -_like(logits, by_row * torch.sigmoid(logits.double()))
        by_loc = -_like(loc, by_point) if for_loc else None
        of_point = _like(point, by_point) if for_point else None
        return None, None, of_point, by_loc, by_scale, by_logits


def _like(parameter: Tensor, gradient: Tensor) -> Tensor:
    return gradient.sum_to_size(parameter.shape).to(parameter.dtype)
