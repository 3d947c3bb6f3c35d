"""The probability of an order event as products (`products`), with gradients by hand: what trains.

The gradient of hit in u_k is phi(u_k) hit / up_k, so that the backward pass needs one density and
no other error function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.distributions.standard_families import StandardFamily

#: Below this probability the product form may have lost digits, and the log form takes its place.
SMALLEST_PRODUCT = 1e-260
#: Largest distance of a point from a location, and smallest divisor.
_FAR, _TINY = 1e300, 1e-300


def all_and_any(up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities that all of independent events happen, and that at least one does not.

    :param up: their probabilities, [..., K]; `down`: those of the complements.
    """
    *others, every = up.unbind(-1)
    *before, some = down.unbind(-1)
    for one, none in zip(reversed(others), reversed(before), strict=True):
        some = torch.addcmul(none, one, some)
        every = every * one
    # The rounding of the sum must not lift a probability above 1.
    return every, some.clamp_max(1.0)


class _Parts(NamedTuple):
    """Intermediate results that the gradient needs."""

    u: Tensor  # [..., (G,) K]
    inverse: Tensor  # 1 / scale
    up: Tensor
    down: Tensor
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
    # Infinite points become finite ones, whose first and second derivatives are 0.
    u = (point.double() - loc.double()).clamp_(-_FAR, _FAR).mul_(inverse)
    up, down = standard.tails(u)
    hit, miss = all_and_any(up, down)
    if logits is not None:
        finite = torch.sigmoid(-logits.double())
        hit, miss = finite * hit, torch.sigmoid(logits.double()) + finite * miss
    zero, one = all_and_any(miss, hit) if alternatives else (miss, hit)
    return _Parts(u, inverse, up, down, hit, miss, zero, one)


class _Probabilities(torch.autograd.Function):
    """Pr(y = 0) and Pr(y = 1) from point, loc, scale [..., (G,) K] and logits [..., (G)]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        ctx.options, inputs = inputs[:2], inputs[2:]
        parts = _evaluate(*ctx.options, *inputs)
        ctx.save_for_backward(*inputs, *parts)
        return parts.zero, parts.one

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (standard, alternatives), inputs = ctx.options, ctx.saved_tensors[:4]
        point, loc, scale, logits = inputs
        parts = _Parts(*ctx.saved_tensors[4:])
        if torch.is_grad_enabled():  # second derivatives go through the inputs
            parts = _evaluate(standard, alternatives, *inputs)
        # Pr(y = 0) = 1 - Pr(y = 1): every derivative is that of Pr(y = 1).
        by_one = grad_outputs[1] - grad_outputs[0]
        if alternatives:
            by_one = (by_one * parts.zero).unsqueeze(-1) / parts.miss.clamp_min(_TINY)
        by_row = by_one * parts.hit
        by_point = standard.pull(by_row.unsqueeze(-1), parts.u, parts.up, parts.down)
        by_point = by_point.mul_(parts.inverse)
        by_scale = by_logits = None
        for_scale, for_logits = ctx.needs_input_grad[-2:]
        if for_scale:
            by_scale = -_like(scale, by_point * parts.u.clamp(-_FAR, _FAR))
        if for_logits:
            by_logits = -_like(logits, by_row * torch.sigmoid(logits.double()))
        return None, None, _like(point, by_point), -_like(loc, by_point), by_scale, by_logits


#: (family, whether there are alternatives, point, loc, scale, logits) -> Pr(y = 0) and Pr(y = 1).
probabilities = _Probabilities.apply


def _like(parameter: Tensor, gradient: Tensor) -> Tensor:
    return gradient.sum_to_size(parameter.shape).to(parameter.dtype)
