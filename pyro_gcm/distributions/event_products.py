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
#: The same of products in float32, of which those in float64 take the place.
SMALLEST_SINGLE = 1e-30


class _Limits(NamedTuple):
    """Smallest probabilities of rows and of events, and largest distances of points."""

    smallest: float
    tiny: float
    far: float


_LIMITS = {
    torch.float64: _Limits(SMALLEST_PRODUCT, 1e-300, 1e300),
    torch.float32: _Limits(SMALLEST_SINGLE, 1e-37, 1e37),
}


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
    kind: torch.dtype,
    inverted: bool,
    point: Tensor,
    loc: Tensor,
    scale: Tensor,
    logits: Tensor | None,
) -> _Parts:
    scale, far = scale.to(kind), _LIMITS[kind].far
    inverse = scale if inverted else scale.reciprocal()
    # Infinite points become finite ones, whose first and second derivatives are 0.
    u = (point.to(kind) - loc.to(kind)).clamp_(-far, far).mul_(inverse)
    up, down = standard.tails(u)
    hit, miss = all_and_any(up, down)
    if logits is not None:
        finite = torch.sigmoid(-logits.to(kind))
        hit, miss = finite * hit, torch.sigmoid(logits.to(kind)) + finite * miss
    zero, one = all_and_any(miss, hit) if alternatives else (miss, hit)
    return _Parts(u, inverse, up, down, hit, miss, zero, one)


def _parts_of(ctx: Any) -> tuple[tuple[Tensor, ...], _Parts]:
    """The tensors that a function was given, and the parts.

    Second derivatives go through the inputs, so that the parts are computed from them anew.
    """
    inputs = ctx.saved_tensors[:4]
    again = torch.is_grad_enabled()
    return inputs, _evaluate(*ctx.options, *inputs) if again else _Parts(*ctx.saved_tensors[4:12])


def _gradients(ctx: Any, inputs: tuple[Tensor, ...], parts: _Parts, by_row: Tensor) -> Any:
    """Those of point, loc, scale and logits.

    :param by_row: the gradient of log hit, [..., (G)].
    """
    point, loc, scale, logits = inputs
    far = _LIMITS[parts.u.dtype].far
    by_u = ctx.options[0].pull(by_row.unsqueeze(-1), parts.u, parts.up, parts.down)
    by_loc = by_scale = by_logits = None
    for_point, for_loc, for_scale, for_logits = ctx.needs_input_grad[-4:]
    by_point = by_u * parts.inverse
    if for_scale:
        finite = parts.u.clamp(-far, far)
        inverted = ctx.options[3]
        by_scale = by_u * finite.div_(parts.inverse) if inverted else -by_point * finite
        by_scale = _like(scale, by_scale)
    if for_logits:
        by_logits = -_like(logits, by_row * torch.sigmoid(logits.to(by_row.dtype)))
    if for_loc:
        by_loc = -_like(loc, by_point)
    return _like(point, by_point) if for_point else None, by_loc, by_scale, by_logits


class _Probabilities(torch.autograd.Function):
    """Pr(y = 0) and Pr(y = 1) from point, loc, scale [..., (G,) K] and logits [..., (G)]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        ctx.options, inputs = inputs[:4], inputs[4:]
        parts = _evaluate(*ctx.options, *inputs)
        ctx.save_for_backward(*inputs, *parts)
        return parts.zero, parts.one

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        inputs, parts = _parts_of(ctx)
        # Pr(y = 0) = 1 - Pr(y = 1): every derivative is that of Pr(y = 1).
        by_one = grad_outputs[1] - grad_outputs[0]
        if ctx.options[1]:
            tiny = _LIMITS[ctx.options[2]].tiny
            by_one = (by_one * parts.zero).unsqueeze(-1) / parts.miss.clamp_min(tiny)
        return None, None, None, None, *_gradients(ctx, inputs, parts, by_one * parts.hit)


class _LogProbability(torch.autograd.Function):
    """log Pr(y = value), and Pr(y = value) without a gradient, from the value and the same.

    Both outcomes have one gradient but for a factor of the row.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        ctx.options, inputs = inputs[:4], inputs[4:]
        parts, happened = _evaluate(*ctx.options, *inputs), value > 0.5
        p = torch.where(happened, parts.one, parts.zero)
        q = torch.where(happened, parts.zero, parts.one)
        log_p = torch.where(p <= q, p.log(), torch.log1p(-q))
        ctx.save_for_backward(*inputs, *parts, happened)
        ctx.mark_non_differentiable(p)
        return log_p, p

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        inputs, parts = _parts_of(ctx)
        smallest, tiny, _ = _LIMITS[ctx.options[2]]
        one, zero = (p.clamp_min(smallest) for p in (parts.one, parts.zero))
        happened = ctx.saved_tensors[-1]
        if ctx.options[1]:
            by_none = grad_outputs[0] * torch.where(happened, parts.zero / one, -1.0)
            by_row = (by_none.unsqueeze(-1) * parts.hit) / parts.miss.clamp_min(tiny)
        else:
            by_row = grad_outputs[0] * torch.where(happened, 1.0, -parts.one / zero)
        return None, None, None, None, None, *_gradients(ctx, inputs, parts, by_row)


#: (family, whether there are alternatives, type of the products, whether scale is 1 / scale, point,
#: loc, scale, logits) -> Pr(y = 0) and Pr(y = 1).
probabilities = _Probabilities.apply
#: (value, and the same) -> log Pr(y = value) and Pr(y = value), the latter without a gradient.
log_probability = _LogProbability.apply


def _like(parameter: Tensor, gradient: Tensor) -> Tensor:
    return gradient.sum_to_size(parameter.shape).to(parameter.dtype)
