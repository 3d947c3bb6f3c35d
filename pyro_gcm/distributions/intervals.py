"""Probabilities of intervals, in logarithms, without the cancellation of Pr(c < b) - Pr(c < a)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm.distributions.event_probability import LAPLACE, LOGISTIC, NORMAL, StandardTails
from pyro_gcm.distributions.families import cost_family, tail_log_probs
from pyro_gcm.distributions.numerics import LOG_2, Transformable, log1mexp, normal_log_tails

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def _log_normal(a: Tensor, b: Tensor) -> Tensor:
    """log(Phi(b) - Phi(a)) for a < b."""
    # By symmetry the interval is brought to where it lies below 0 for the most part.
    flip = a + b > 0.0
    a, b = torch.where(flip, -b, a), torch.where(flip, -a, b)
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    log_a, log_b = (normal_log_tails(v, zero, one)[0] for v in (a, b))
    wide = log_b + log1mexp((log_a - log_b).clamp(max=-1e-300))
    # Where the density hardly varies, a quadrature of it; relative to its value in the middle.
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    total = torch.zeros_like(a)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        step = half * node
        total = total + weight * torch.exp((-middle * step - 0.5 * step * step).clamp(max=50.0))
    narrow = (half * total).log() - 0.5 * middle * middle - _LOG_SQRT_2PI
    return torch.where((b - a) * middle.abs().clamp(min=1.0) < 1.0, narrow, wide)


def _log_logistic(a: Tensor, b: Tensor) -> Tensor:
    """log of sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))."""
    return logsigmoid(b) + logsigmoid(-a) + torch.log(-torch.expm1(a - b))


def _log_laplace(a: Tensor, b: Tensor) -> Tensor:
    """The same of a standard Laplace distribution, on one side of 0 and across it."""
    flip = a + b > 0.0
    a, b = torch.where(flip, -b, a), torch.where(flip, -a, b)
    one_side = b.clamp(max=0.0) + torch.log(-torch.expm1(a - b.clamp(max=0.0)))
    across = torch.log(-torch.expm1(a.clamp(max=0.0)) - torch.expm1(-b.clamp(min=0.0)))
    return torch.where(b <= 0.0, one_side, across) - LOG_2


_LOG_DENSITIES: dict[StandardTails, Callable[[Tensor], Tensor]] = {
    NORMAL: lambda u: -0.5 * u * u - _LOG_SQRT_2PI,
    LOGISTIC: lambda u: logsigmoid(u) + logsigmoid(-u),
    LAPLACE: lambda u: -u.abs() - LOG_2,
}
_LOG_INTERVALS: dict[StandardTails, Callable[[Tensor, Tensor], Tensor]] = {
    NORMAL: _log_normal,
    LOGISTIC: _log_logistic,
    LAPLACE: _log_laplace,
}


class _LogInterval(Transformable):
    """log(F(b) - F(a)) of a standard family; the gradient is density over probability."""

    @staticmethod
    def forward(standard: StandardTails, a: Tensor, b: Tensor) -> Tensor:
        return _LOG_INTERVALS[standard](a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.standard, *ends = inputs
        ctx.save_for_backward(*ends, output)
        ctx.save_for_forward(*ends, output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        low, high = _end_slopes(ctx)
        return None, -grad_outputs[0] * low, grad_outputs[0] * high

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Tensor:
        low, high = _end_slopes(ctx)
        slope: Tensor = grad_inputs[2] * high - grad_inputs[1] * low
        return slope


def _end_slopes(ctx: Any) -> tuple[Tensor, ...]:
    *ends, log_p = ctx.saved_tensors
    log_density = _LOG_DENSITIES[ctx.standard]
    return tuple(torch.exp(log_density(u) - log_p) for u in ends)


def log_interval(base: Any, low: Tensor, high: Tensor) -> Tensor:
    """log Pr(low <= c < high) of univariate costs, float64, for finite low < high.

    To a few ulp, relative to the probability, for the built-in families, however narrow the
    interval and however far in a tail. For a registered family it is the difference of the smaller
    two of its tails, which loses the digits that these have in common.

    :param base: a distribution without event dimensions; low and high broadcast against it.
    """
    standard = cost_family(type(base)).standard
    low, high = torch.broadcast_tensors(low.double(), high.double())
    if standard is not None:
        loc, scale = base.loc.double(), base.scale.double()
        ends = torch.broadcast_tensors((low - loc) / scale, (high - loc) / scale)
        log_p: Tensor = _LogInterval.apply(standard, *ends)
        return log_p
    (below_low, above_low), (below_high, above_high) = (
        tail_log_probs(base, value) for value in (low, high)
    )
    from_below = below_high < above_low
    more = torch.where(from_below, below_high, above_low)
    less = torch.where(from_below, below_low, above_high)
    return more + log1mexp((less - more).clamp(max=-1e-300))
