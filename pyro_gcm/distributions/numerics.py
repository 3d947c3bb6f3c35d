"""Functions of log-probabilities that keep their precision in both tails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import in_transform

LOG_2 = math.log(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


class Transformable(torch.autograd.Function):
    """A function of autograd with a context of its own, which `torch.func` can transform.

    Outside of the transforms it skips the signature that torch inspects in every call, which costs
    as much as a small tensor's arithmetic.
    """

    generate_vmap_rule = True

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result of `forward`."""
        if in_transform():
            return super().apply(*args)
        args = torch._functorch.utils.unwrap_dead_wrappers(args)
        return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the tensors among the arguments and the result; the others are `ctx.options`."""
        ctx.options = [value for value in inputs if not isinstance(value, Tensor)]
        saved = [*(value for value in inputs if isinstance(value, Tensor)), output]
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)


def log1mexp(log_p: Tensor) -> Tensor:
    """log(1 - p) from log(p), for log(p) <= 0.

    Exact to rounding on both sides of p = 1/2; the gradient at p = 1 is minus infinity.
    """
    low = log_p < -LOG_2
    # Double `where`: the branch that is not taken must not send NaN into the gradient.
    from_low = torch.log1p(-torch.exp(torch.where(low, log_p, -1.0)))
    from_high = torch.log(-torch.expm1(torch.where(low, -1.0, log_p)))
    return torch.where(low, from_low, from_high)


class _LogAny(Transformable):
    """log(1 - prod_i q_i) from log p_i and log q_i = log(1 - p_i), over the last dimension."""

    @staticmethod
    def forward(log_hit: Tensor, log_miss: Tensor) -> Tensor:
        log_none = log_miss.sum(-1)
        # The first-hit sum is exact for results below 1/2. Closer to 1 its terms round, but log1p
        # of the complement is exact.
        first = torch.logsumexp(first_terms(log_hit, log_miss), -1)
        return torch.where(log_none < -LOG_2, torch.log1p(-log_none.exp()), first)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        return grad_outputs[0].unsqueeze(-1) * _any_weights(*ctx.saved_tensors), None

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Tensor) -> Tensor:
        return (grad_inputs[0] * _any_weights(*ctx.saved_tensors)).sum(-1)


def _any_weights(log_hit: Tensor, log_miss: Tensor, log_some: Tensor) -> Tensor:
    # d log_some = sum_i w_i d log p_i with w_i = p_i prod_{j != i} q_j / (1 - prod q). All of the
    # derivative goes through log p_i, so that nothing cancels. A certain event has q_i = 0 and p_i
    # at its upper bound, where the gradient is taken as 0.
    others = log_miss.sum(-1, keepdim=True) - log_miss
    weight = torch.exp(log_hit + others - log_some.unsqueeze(-1))
    return torch.where(log_miss.isinf() | log_some.isinf().unsqueeze(-1), 0.0, weight)


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


def lifted(
    value: Tensor, log_tails: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Both tails, whose functions take finite values, at a value of any type, in float64."""
    infinite = value.isinf()
    # An infinite value is replaced before the arithmetic: 0 * inf would put NaN into the gradients.
    # The float64 of the value lifts the whole computation.
    below, above = log_tails(torch.where(infinite, 1.0, value.double()))
    up, down = infinite & (value > 0), infinite & (value < 0)
    return (
        below.masked_fill(up, 0.0).masked_fill(down, -math.inf),
        above.masked_fill(up, -math.inf).masked_fill(down, 0.0),
    )


def normal_log_tails(value: Tensor, loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """log Pr(c < value) and log Pr(c >= value) of a normal c, float64, exact in both tails.

    An infinite value has gradient 0. Each error function is evaluated once for both results.
    """

    def both(finite: Tensor) -> tuple[Tensor, Tensor]:
        u = (finite - loc) / scale
        negative = u < 0
        a = torch.where(negative, -u, u) * math.sqrt(0.5)  # not |u|, whose slope at 0 is 0
        low = (0.5 * torch.special.erfcx(a)).log() - a * a
        high = torch.log1p(-0.5 * torch.erfc(a))
        return torch.where(negative, low, high), torch.where(negative, high, low)

    return lifted(value, both)


#: Log-probability below which exp is close to the smallest float.
_FAR = -600.0


def ndtri_exp(log_p: Tensor) -> Tensor:
    """Phi^-1(exp(log_p)), the normal quantile of a log-probability.

    It takes any log_p <= 0, also if exp(log_p) is below the smallest float. Close to p = 1 a
    log-probability itself has few digits; `probit` is exact there as well, from log(1 - p). An
    infinite result has gradient 0, as an infinite revenue has.
    """
    infinite = log_p.isinf() | (log_p == 0.0)
    lp = torch.where(infinite, -1.0, log_p.double())
    upper, far, near = lp > -LOG_2, lp < _FAR, lp.clamp(min=_FAR)
    x = torch.special.ndtri(torch.where(upper, -torch.expm1(near), torch.exp(near)))
    x = torch.where(upper, -x, x)
    if in_transform() or far.is_meta or far.any():
        x = torch.where(far, _far_quantile(lp.clamp(max=_FAR)), x)
    return torch.where(infinite, torch.where(log_p == 0.0, math.inf, -math.inf), x).to(log_p.dtype)


def _far_quantile(log_p: Tensor) -> Tensor:
    """Phi^-1(exp(log_p)) in the far tail: its leading terms, then Newton steps on log Phi."""
    twice = -2.0 * log_p
    x = -torch.sqrt(twice - 2.0 * _LOG_SQRT_2PI - twice.log())
    for _ in range(2):
        ratio = math.sqrt(math.pi / 2.0) * torch.special.erfcx(-x * math.sqrt(0.5))  # Phi / phi
        x = x - (ratio.log() - 0.5 * x * x - _LOG_SQRT_2PI + 0.5 * twice) * ratio
    return x


def ndtr(x: Tensor) -> Tensor:
    """Phi(x) with full relative precision in the lower tail, which `torch.special.ndtr` cuts off.

    torch's is 2 % off at -8 and 0 from -9 on in float64; this one is a number down to -38.
    """
    return 0.5 * torch.erfc(x * -math.sqrt(0.5))


def probit(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Phi^-1(p) from log(p) and log(1 - p), stable in both tails, with stable gradients.

    The smaller of the two probabilities is inverted, because its logarithm has more digits (paper,
    appendix D.3, where p = Pr(c < r | z)).
    """
    lower = log_p < log_q
    x = ndtri_exp(torch.where(lower, log_p, log_q))
    return torch.where(lower, x, -x)
