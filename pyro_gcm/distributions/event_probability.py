"""The probability of an order event as a product, as one function of autograd.

With Pr(c_k < r_k) = up_k and Pr(c_k >= r_k) = down_k the event has the probability

    hit  = up_1 ... up_K
    miss = down_1 + up_1 (down_2 + up_2 (... down_K))

which are sums and products of positive terms: both are right to a few ulp, relative, until they
underflow. Over alternatives the same holds once more, with hits and misses exchanged, and an atom
at infinity is one more coordinate. Neither needs a logarithm, and the gradient of hit in u_k is
phi(u_k) hit / up_k, so that the backward pass needs one density and no other error function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.distributions.standard_families import StandardFamily

#: Below this probability the product form may have lost digits, and the log form takes its place.
SMALLEST_PRODUCT = 1e-260
_TINY = 1e-300


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
    """What the gradient needs of the evaluation."""

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


class _EventProbabilities(torch.autograd.Function):
    """Pr(y = 0) and Pr(y = 1) from point, loc, scale [..., (G,) K] and logits [..., (G)]."""

    @staticmethod
    def forward(
        ctx: Any, standard: StandardFamily, alternatives: bool, *inputs: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.standard, ctx.alternatives = standard, alternatives
        parts = _evaluate(standard, alternatives, *inputs)  # type: ignore[arg-type]
        ctx.save_for_backward(*inputs, *parts)
        return parts.zero, parts.one

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        # Pr(y = 0) = 1 - Pr(y = 1): every derivative is that of Pr(y = 1).
        return None, None, *_gradients(ctx, grad_outputs[1] - grad_outputs[0])


class _MeanProbability(torch.autograd.Function):
    """The mean of Pr(y = outcome) over dimension 0, from the inputs of `_EventProbabilities`.

    :param outcome: boolean, of the shape of the result.
    """

    @staticmethod
    def forward(
        ctx: Any,
        standard: StandardFamily,
        alternatives: bool,
        outcome: Tensor,
        *inputs: Tensor | None,
    ) -> Tensor:
        ctx.standard, ctx.alternatives, ctx.outcome = standard, alternatives, outcome
        parts = _evaluate(standard, alternatives, *inputs)  # type: ignore[arg-type]
        ctx.save_for_backward(*inputs, *parts)
        return torch.where(outcome, parts.one, parts.zero).mean(0)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        share = grad_outputs[0] / len(ctx.saved_tensors[-1])
        return None, None, None, *_gradients(ctx, torch.where(ctx.outcome, share, -share))


def _gradients(ctx: Any, by_one: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients in point, loc, scale and logits from that in Pr(y = 1)."""
    inputs, saved = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
    point, loc, scale, logits = inputs
    # Second derivatives go through the inputs, so that the parts are computed from them anew.
    again = torch.is_grad_enabled()
    parts = _evaluate(ctx.standard, ctx.alternatives, *inputs) if again else _Parts(*saved)
    if ctx.alternatives:
        by_one = (by_one * parts.zero).unsqueeze(-1) / parts.miss.clamp_min(_TINY)
    by_row = by_one * parts.hit
    by_u = ctx.standard.pull(by_row.unsqueeze(-1), parts.u, parts.up)
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
    return _like(point, by_point) if for_point else None, by_loc, by_scale, by_logits


def _like(parameter: Tensor, gradient: Tensor) -> Tensor:
    return gradient.sum_to_size(parameter.shape).to(parameter.dtype)


class ProductForm(NamedTuple):
    """An order event whose costs are of a location-scale family.

    :param standard: the family.
    :param point: what the costs are compared with, [..., (G,) K]; it may be infinite.
    :param loc: of the costs; `scale`: likewise.
    :param logits: log-odds of an infinite cost, [..., (G)], or None.
    :param alternatives: whether the shapes have a dimension G, and one alternative is enough.
    """

    standard: StandardFamily
    point: Tensor
    loc: Tensor
    scale: Tensor
    logits: Tensor | None
    alternatives: bool

    def probabilities(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1), float64, each right to a few ulp, relative.

        Differentiable in everything that is a tensor, also twice. Where a probability underflows
        it is 0, and so is its gradient.
        """
        zero, one = _EventProbabilities.apply(self.standard, self.alternatives, *self._inputs())
        return zero, one

    def mean_probability(self, outcome: Tensor) -> Tensor:
        """The mean of Pr(y = outcome) over dimension 0, that of the draws, in one function.

        :param outcome: boolean, without that dimension, which `loc` must have.
        """
        options = self.standard, self.alternatives, outcome
        mean: Tensor = _MeanProbability.apply(*options, *self._inputs())
        return mean

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return self.point.double(), self.loc, self.scale, self.logits
