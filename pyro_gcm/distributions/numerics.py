"""Functions of log-probabilities that keep their precision in both tails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

LOG_2 = math.log(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def log1mexp(log_p: Tensor) -> Tensor:
    """log(1 - p) from log(p), for log(p) <= 0.

    Exact to rounding on both sides of p = 1/2; the gradient at p = 1 is minus infinity.
    """
    low = log_p < -LOG_2
    # Double `where`: the branch that is not taken must not send NaN into the gradient.
    from_low = torch.log1p(-torch.exp(torch.where(low, log_p, -1.0)))
    from_high = torch.log(-torch.expm1(torch.where(low, -1.0, log_p)))
    return torch.where(low, from_low, from_high)


class _LogAny(torch.autograd.Function):
    """log(1 - prod_i q_i) from log p_i and log q_i = log(1 - p_i), over the last dimension."""

    @staticmethod
    def forward(ctx: Any, log_hit: Tensor, log_miss: Tensor) -> Tensor:
        log_none = log_miss.sum(-1)
        # The first-hit sum is exact for results below 1/2. Closer to 1 its terms round, but log1p
        # of the complement is exact.
        log_some = torch.where(
            log_none < -LOG_2,
            torch.log1p(-log_none.exp()),
            torch.logsumexp(first_terms(log_hit, log_miss), -1),
        )
        ctx.save_for_backward(log_hit, log_miss, log_some)
        return log_some

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        log_hit, log_miss, log_some = ctx.saved_tensors
        # d log_some = sum_i w_i d log p_i with w_i = p_i prod_{j != i} q_j / (1 - prod q). All of
        # the derivative goes through log p_i, so that nothing cancels. A certain event has q_i = 0
        # and p_i at its upper bound, where the gradient is taken as 0.
        others = log_miss.sum(-1, keepdim=True) - log_miss
        weight = torch.exp(log_hit + others - log_some.unsqueeze(-1))
        weight = torch.where(log_miss.isinf() | log_some.isinf().unsqueeze(-1), 0.0, weight)
        return grad_outputs[0].unsqueeze(-1) * weight, None


def log_any(log_hit: Tensor, log_miss: Tensor) -> Tensor:
    """Log-probability that at least one of independent events happens, over the last dimension.

    `log_hit` and `log_miss` hold log p and log(1 - p) of each event. The gradient goes through
    `log_hit` alone: both are functions of the same p.
    """
    if log_hit.shape[-1] == 1:
        return log_hit.squeeze(-1)
    log_some: Tensor = _LogAny.apply(log_hit, log_miss)
    return log_some


def first_terms(log_hit: Tensor, log_miss: Tensor) -> Tensor:
    """log Pr(event i happens and none before it), along the last dimension."""
    before = torch.cumsum(log_miss, -1)[..., :-1]
    return log_hit + torch.nn.functional.pad(before, (1, 0))


class _NormalLogTails(torch.autograd.Function):
    """log Phi(u) and log Phi(-u) for u = (value - loc) / scale, in float64.

    The gradient needs u and Phi(-|u|) exp(u^2 / 2). They are outputs as well, so that second
    derivatives pass through them.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, loc: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
        u = (value.double() - loc) / scale
        a = u.abs() * math.sqrt(0.5)
        scaled_tail = 0.5 * torch.special.erfcx(a)  # Phi(-|u|) exp(u^2 / 2)
        low = scaled_tail.log() - a * a
        high = torch.log1p(-0.5 * torch.erfc(a))
        negative = u < 0
        ctx.save_for_backward(value, loc, scale, u, scaled_tail)
        ctx.set_materialize_grads(False)
        pair = torch.where(negative, low, high), torch.where(negative, high, low)
        return *pair, u, scaled_tail

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> Any:
        value, loc, scale, u, scaled_tail = ctx.saved_tensors
        # An infinite value has slope 0, in itself and in loc and scale.
        infinite = u.isinf()
        u, scaled_tail = u.masked_fill(infinite, 0.0), scaled_tail.masked_fill(infinite, 0.5)
        low = 1.0 / (math.sqrt(2.0 * math.pi) * scaled_tail)  # phi / Phi(-|u|)
        gauss = torch.exp(-0.5 * u * u)
        high = gauss / (math.sqrt(2.0 * math.pi) * (1.0 - gauss * scaled_tail))  # phi / Phi(|u|)
        negative = u < 0
        up, down, direct, tail = grad_outputs  # those of u and of the tail in second derivatives
        grad_u: Any = 0.0 if up is None else up * torch.where(negative, low, high)
        if down is not None:
            grad_u = grad_u - down * torch.where(negative, high, low)
        if direct is not None:
            grad_u = grad_u + direct
        if tail is not None:
            slope = u.abs() * scaled_tail - 1.0 / math.sqrt(2.0 * math.pi)
            grad_u = grad_u + tail * torch.where(negative, -slope, slope)
        grad_value = (grad_u / scale).masked_fill(infinite, 0.0)
        by_value, by_loc, by_scale = ctx.needs_input_grad
        return (
            grad_value.sum_to_size(value.shape).to(value.dtype) if by_value else None,
            (-grad_value).sum_to_size(loc.shape).to(loc.dtype) if by_loc else None,
            (-grad_value * u).sum_to_size(scale.shape).to(scale.dtype) if by_scale else None,
        )


def normal_log_tails(value: Tensor, loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """log Pr(c < value) and log Pr(c >= value) of a normal c, float64, exact in both tails.

    An infinite value has gradient 0. Each error function is evaluated once for both results and
    the gradient.
    """
    log_p, log_q, *_ = _NormalLogTails.apply(value, loc, scale)
    return log_p, log_q


#: Log-probability below which exp is close to the smallest float.
_FAR = -600.0


def _far_quantile(log_p: Tensor) -> Tensor:
    """Phi^-1(exp(log_p)) in the far tail: its leading terms, then Newton steps on log Phi."""
    twice = -2.0 * log_p
    tail = -torch.sqrt(twice - 2.0 * _LOG_SQRT_2PI - twice.log())
    for _ in range(2):
        excess = torch.special.log_ndtr(tail) + 0.5 * twice
        tail = tail - excess * mills_ratio(tail)
    return tail


class _NdtriExp(torch.autograd.Function):
    """Phi^-1(exp(log_p)); the derivative is Mills' ratio Phi/phi at the result."""

    @staticmethod
    def forward(ctx: Any, log_p: Tensor) -> Tensor:
        lp = log_p.double()
        x = torch.special.ndtri(torch.exp(lp.clamp(min=_FAR)))
        upper, far = lp > -LOG_2, lp < _FAR
        if lp.is_meta or upper.any():
            x = torch.where(upper, -torch.special.ndtri(-torch.expm1(lp)), x)
        if lp.is_meta or far.any():
            x = torch.where(far, _far_quantile(lp.clamp(max=_FAR)), x)
        x = torch.where(lp == -math.inf, -math.inf, x).to(log_p.dtype)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        ratio = mills_ratio(x.double())
        # At an infinite x the slope is taken as 0, as for an infinite revenue.
        return (grad_outputs[0] * torch.where(x.isinf(), 0.0, ratio)).to(x.dtype)


def ndtr(x: Tensor) -> Tensor:
    """Phi(x) with full relative precision in the lower tail, which `torch.special.ndtr` cuts off.

    torch's is 2 % off at -8 and 0 from -9 on in float64; this one is a number down to -38.
    """
    return 0.5 * torch.erfc(x * -math.sqrt(0.5))


def mills_ratio(x: Tensor) -> Tensor:
    """Phi(x) / phi(x), the inverse of the hazard of a standard normal at -x."""
    return math.sqrt(math.pi / 2.0) * torch.special.erfcx(-x * math.sqrt(0.5))


def ndtri_exp(log_p: Tensor) -> Tensor:
    """Phi^-1(exp(log_p)), the normal quantile of a log-probability.

    It takes any log_p <= 0, also if exp(log_p) is below the smallest float. Close to p = 1 a
    log-probability itself has few digits; `probit` is exact there as well, from log(1 - p).
    """
    result: Tensor = _NdtriExp.apply(log_p)
    return result


def probit(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Phi^-1(p) from log(p) and log(1 - p), stable in both tails, with stable gradients.

    The smaller of the two probabilities is inverted, because its logarithm has more digits (paper,
    appendix D.3, where p = Pr(c < r | z)).
    """
    lower = log_p < log_q
    x = ndtri_exp(torch.where(lower, log_p, log_q))
    return torch.where(lower, x, -x)


def rounded_up(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest number of a floating-point type that is at least the value."""
    nearest = values.to(dtype)
    return torch.where(
        nearest < values, torch.nextafter(nearest, nearest.new_tensor(math.inf)), nearest
    )


_rounds = ContextVar("rounds_revenues", default=False)


@contextmanager
def rounding() -> Iterator[None]:
    """Inside, models round what costs are compared with, so that predictions keep its order."""
    token = _rounds.set(True)
    try:
        yield
    finally:
        _rounds.reset(token)


def is_rounding() -> bool:
    """Whether this is inside `rounding`."""
    return _rounds.get()


def coarse(values: Tensor) -> Tensor:
    """`values` in float64 cut to 42 significant bits, towards 0; other types pass unchanged.

    Between neighbouring floats a special function can fall where the exact one rises: its rounding
    error exceeds the step. After the cut two values are equal or a relative 2^-42 apart, far more
    than such an error.
    """
    if values.dtype != torch.float64:
        return values
    dropped = (1 << 11) - 1
    return torch.bitwise_and(values.contiguous().view(torch.int64), ~dropped).view(torch.float64)


def on_grid(values: Tensor) -> Tensor:
    """`values` in float64 rounded to multiples of 2^-40, next to which later rounding is small."""
    return coarse(torch.round(values * 2.0**40) / 2.0**40)
