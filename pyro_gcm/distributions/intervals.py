"""Probabilities of intervals, in logarithms, without the cancellation of Pr(c < b) - Pr(c < a)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm.distributions.families import cost_family, tail_log_probs
from pyro_gcm.distributions.numerics import Transformable, log1mexp
from pyro_gcm.distributions.standard_families import StandardFamily


class _LogInterval(Transformable):
    """log(F(b) - F(a)) of a standard family; the gradient is density over probability."""

    @staticmethod
    def forward(standard: StandardFamily, a: Tensor, b: Tensor) -> Tensor:
        return standard.log_interval(a, b)

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
    return tuple(torch.exp(ctx.standard.log_density(u) - log_p) for u in ends)


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
