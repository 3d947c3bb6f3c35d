"""Symmetric location-scale families of costs, told once at loc 0 and scale 1, in float64.

Another built-in family is one more `StandardFamily`, and an entry of `BUILT_IN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm.distributions.numerics import (
    LOG_2,
    Transformable,
    lifted,
    log1mexp,
    normal_log_tails,
    probit,
)

Elementwise = Callable[[Tensor], Tensor]
TwoElementwise = Callable[[Tensor, Tensor], Tensor]
_TINY = 1e-300
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class StandardFamily:
    """A symmetric location-scale family at loc 0 and scale 1, in float64.

    :param tails: u -> Pr(c < u) and Pr(c >= u), each with full relative precision, in new tensors.
    :param pull: (weight, u, Pr(c < u), Pr(c >= u)) -> weight times density over Pr(c < u), where
        nothing underflows before the result does; a new tensor.
    :param log_tails: (value, loc, scale) -> log Pr(c < value) and log Pr(c >= value) of any loc and
        scale, differentiable, for finite and infinite values of every type.
    :param quantile: p -> u, with full relative precision for small p.
    :param quantile_of_logs: (log p, log(1 - p)) -> u.
    :param log_density: of u.
    :param log_interval: (a, b) -> log Pr(a <= c < b) for finite a < b.
    :param two_tails: turns a >= 0 in place into Pr(|c| >= a * unit), without a gradient. It falls
        where a rises, and the result for a number does not depend on its place in the tensor.
    :param unit: of `two_tails`.
    :param in_onnx: whether ONNX has the functions of `two_tails` in float64.
    """

    tails: Callable[[Tensor], tuple[Tensor, Tensor]]
    pull: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    log_tails: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    quantile: Elementwise
    quantile_of_logs: TwoElementwise
    log_density: Elementwise
    log_interval: TwoElementwise
    two_tails: Elementwise
    unit: float = 1.0
    in_onnx: bool = True

    def __reduce__(self) -> str:
        """Its name in this module, for copies and pickles."""
        return next(name for name, value in globals().items() if value is self)


def _symmetric(log_cdf: Elementwise) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """`log_tails` from log Pr(c < u)."""

    def log_tails(value: Tensor, loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        def both(finite: Tensor) -> tuple[Tensor, Tensor]:
            u = (finite - loc) / scale
            return log_cdf(u), log_cdf(-u)

        return lifted(value, both)

    return log_tails


# In place on tensors of their own: a page of new memory costs more than the arithmetic on it.
# Autograd keeps a copy where a second derivative needs one.


def _split(smaller: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Pr(c < u) and Pr(c >= u) of a symmetric distribution from Pr(c >= |u|), in place."""
    positive = (u >= 0.0).to(u.dtype)
    signed = smaller.copysign_(positive - 0.5)  # not of u, which may be -0.0
    return positive - signed, positive.neg_().add_(1.0).add_(signed)


def _by_root(root_density: Elementwise) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """`pull` from the square root of the density, which underflows later than the density."""

    def pull(weight: Tensor, u: Tensor, up: Tensor, down: Tensor) -> Tensor:
        root = root_density(u)
        return (weight / up.clamp_min(_TINY)).mul_(root).mul_(root)

    return pull


def _below_zero(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The interval or its mirror image, whichever lies below 0 for the most part."""
    flip = a + b > 0.0
    return torch.where(flip, -b, a), torch.where(flip, -a, b)


def _normal_interval(a: Tensor, b: Tensor) -> Tensor:
    a, b = _below_zero(a, b)
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


def _laplace_interval(a: Tensor, b: Tensor) -> Tensor:
    a, b = _below_zero(a, b)
    one_side = b.clamp(max=0.0) + torch.log(-torch.expm1(a - b.clamp(max=0.0)))
    across = torch.log(-torch.expm1(a.clamp(max=0.0)) - torch.expm1(-b.clamp(min=0.0)))
    return torch.where(b <= 0.0, one_side, across) - LOG_2


def _laplace_log_cdf(u: Tensor) -> Tensor:
    negative = u < 0
    below = torch.where(negative, u, 0.0) - LOG_2
    above = torch.log1p(-0.5 * torch.exp(-torch.where(negative, 0.0, u)))
    return torch.where(negative, below, above)


def _laplace_quantile_of_logs(log_p: Tensor, log_q: Tensor) -> Tensor:
    u = torch.minimum(log_p, log_q) + LOG_2
    return torch.where(log_p < log_q, u, -u)


NORMAL = StandardFamily(
    tails=lambda u: _split(u.abs().mul_(math.sqrt(0.5)).erfc_().mul_(0.5), u),
    pull=_by_root(lambda u: (u * u).mul_(-0.25).sub_(0.5 * _LOG_SQRT_2PI).exp_()),
    log_tails=normal_log_tails,
    quantile=torch.special.ndtri,
    quantile_of_logs=probit,
    log_density=lambda u: -0.5 * u * u - _LOG_SQRT_2PI,
    log_interval=_normal_interval,
    two_tails=torch.erfc_,
    unit=math.sqrt(2.0),
    in_onnx=False,
)
LOGISTIC = StandardFamily(
    tails=lambda u: (torch.sigmoid(u), torch.sigmoid(-u)),
    pull=lambda weight, u, up, down: weight * down,  # the density is Pr(c < u) Pr(c >= u)
    log_tails=_symmetric(logsigmoid),
    quantile=torch.logit,
    quantile_of_logs=torch.sub,
    log_density=lambda u: logsigmoid(u) + logsigmoid(-u),
    # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))
    log_interval=lambda a, b: logsigmoid(b) + logsigmoid(-a) + torch.log(-torch.expm1(a - b)),
    two_tails=lambda a: a.exp_().add_(1.0).reciprocal_().mul_(2.0),
)
LAPLACE = StandardFamily(
    tails=lambda u: _split(0.5 * torch.exp(-u.abs()), u),
    pull=_by_root(lambda u: math.sqrt(0.5) * torch.exp(-0.5 * u.abs())),
    log_tails=_symmetric(_laplace_log_cdf),
    quantile=lambda p: torch.copysign((2.0 * torch.minimum(p, 1.0 - p)).log(), p - 0.5),
    quantile_of_logs=_laplace_quantile_of_logs,
    log_density=lambda u: -u.abs() - LOG_2,
    log_interval=_laplace_interval,
    two_tails=lambda a: a.neg_().exp_(),
)

#: The distribution of each, of parameters `loc` and `scale`, and its name as a `cost_family`.
BUILT_IN: dict[type, tuple[str, StandardFamily]] = {
    dist.Normal: ("normal", NORMAL),
    dist.Logistic: ("logistic", LOGISTIC),
    dist.Laplace: ("laplace", LAPLACE),
}


class _LogInterval(Transformable):
    """log(F(b) - F(a)) of a standard family; the gradient is density over probability."""

    @staticmethod
    def forward(standard: StandardFamily, a: Tensor, b: Tensor) -> Tensor:
        return standard.log_interval(a, b)

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
    (standard,), (*ends, log_p) = ctx.options, ctx.saved_tensors
    return tuple(torch.exp(standard.log_density(u) - log_p) for u in ends)


#: (family, a, b) -> its `log_interval`, with a gradient of density over probability.
log_standard_interval = _LogInterval.apply
