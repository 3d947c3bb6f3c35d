"""Functions of log-probabilities that keep their precision in both tails."""

from __future__ import annotations

import math
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


def logsumexp(terms: Tensor) -> Tensor:
    """log(sum(exp(terms))) over the last dimension, with gradient 0 where all terms are -inf."""
    empty = (terms == -math.inf).all(-1)
    total = torch.logsumexp(torch.where(empty.unsqueeze(-1), 0.0, terms), -1)
    return torch.where(empty, -math.inf, total)


def log_any(log_hit: Tensor, log_miss: Tensor) -> Tensor:
    """Log-probability that at least one of independent events happens, over the last dimension.

    `log_hit` and `log_miss` hold log p and log(1 - p) of each event. The first-hit sum is exact
    where the answer is below 1/2; where the answer is close to 1 its terms round, and log1p of the
    complement is exact instead.
    """
    if log_hit.shape[-1] == 1:
        return log_hit.squeeze(-1)
    log_none = log_miss.sum(-1)
    likely = log_none < -LOG_2
    complement = torch.log1p(-torch.exp(torch.where(likely, log_none, -1.0)))
    terms = torch.where(likely.unsqueeze(-1), 0.0, first_terms(log_hit, log_miss))
    return torch.where(likely, complement, logsumexp(terms))


def first_terms(log_hit: Tensor, log_miss: Tensor) -> Tensor:
    """log Pr(event i happens and none before it), along the last dimension."""
    before = torch.cumsum(log_miss, -1)[..., :-1]
    return log_hit + torch.nn.functional.pad(before, (1, 0))


class _LogNdtrPair(torch.autograd.Function):
    """log Phi(u) and log Phi(-u) from one evaluation of each error function."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> tuple[Tensor, Tensor]:
        a = u.abs() * math.sqrt(0.5)
        scaled_tail = 0.5 * torch.special.erfcx(a)  # Phi(-|u|) exp(u^2 / 2)
        low = scaled_tail.log() - a * a
        high = torch.log1p(-0.5 * torch.erfc(a))
        negative = u < 0
        ctx.save_for_backward(u, scaled_tail)
        return torch.where(negative, low, high), torch.where(negative, high, low)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:  # type: ignore[override]
        u, scaled_tail = ctx.saved_tensors
        density = torch.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
        low = 1.0 / (math.sqrt(2.0 * math.pi) * scaled_tail)  # phi / Phi(-|u|)
        high = density / (1.0 - density * math.sqrt(2.0 * math.pi) * scaled_tail)  # phi / Phi(|u|)
        negative = u < 0
        up, down = torch.where(negative, low, high), torch.where(negative, high, low)
        return grad_outputs[0] * up - grad_outputs[1] * down


def log_ndtr_pair(u: Tensor) -> tuple[Tensor, Tensor]:
    """log Phi(u) and log(1 - Phi(u)), each with full relative precision and a finite gradient."""
    pair: tuple[Tensor, Tensor] = _LogNdtrPair.apply(u)
    return pair


class _NdtriExp(torch.autograd.Function):
    """Phi^-1(exp(log_p)); the derivative is Mills' ratio Phi/phi at the result."""

    @staticmethod
    def forward(ctx: Any, log_p: Tensor) -> Tensor:
        lp = log_p.double()
        upper = lp > -LOG_2
        x = torch.special.ndtri(torch.exp(lp.clamp(min=-600.0)))
        x = torch.where(upper, -torch.special.ndtri(-torch.expm1(lp)), x)
        # Below exp(-600): the leading terms of the tail expansion, then Newton steps on log Phi.
        far = (-2.0 * lp).clamp(min=1200.0)
        tail = -torch.sqrt(far - 2.0 * _LOG_SQRT_2PI - far.log())
        for _ in range(2):
            excess = torch.special.log_ndtr(tail) + 0.5 * far
            tail = tail - excess * _mills_ratio(tail)
        x = torch.where(lp < -600.0, tail, x)
        x = torch.where(lp == -math.inf, -math.inf, x).to(log_p.dtype)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        ratio = _mills_ratio(x.double())
        # At an infinite x the slope is taken as 0, as for an infinite revenue.
        return (grad_outputs[0] * torch.where(x.isinf(), 0.0, ratio)).to(x.dtype)


def _mills_ratio(x: Tensor) -> Tensor:
    """Phi(x) / phi(x)."""
    return math.sqrt(math.pi / 2.0) * torch.special.erfcx(-x * math.sqrt(0.5))


def ndtri_exp(log_p: Tensor) -> Tensor:
    """Phi^-1(exp(log_p)), the normal quantile of a log-probability.

    Any log_p <= 0, however far below the smallest float. Close to p = 1 a log-probability itself
    runs out of digits; where log(1 - p) is known too, `probit` is exact there as well.
    """
    result: Tensor = _NdtriExp.apply(log_p)
    return result


def probit(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Phi^-1(p) from log(p) and log(1 - p), stable in both tails, with stable gradients.

    The smaller of the two probabilities is inverted, so value and gradient come from the side that
    has the digits (paper, appendix D.3, where p = Pr(c < r | z)).
    """
    lower = log_p < log_q
    x = ndtri_exp(torch.where(lower, log_p, log_q))
    return torch.where(lower, x, -x)
