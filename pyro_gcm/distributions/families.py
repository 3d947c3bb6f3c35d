"""Cost families: what an order event must know of a univariate distribution.

An order event needs log Pr(c < r) and log Pr(c >= r) of every cost with full precision in both
tails, and its exact cost posterior needs the quantiles of log-probabilities. torch distributions
offer neither, so a family registers them here, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from pyro.distributions.torch_distribution import ExpandedDistribution
from torch import Tensor

from pyro_gcm.distributions.numerics import LOG_2, normal_cdf, normal_log_tails, probit

# The first argument is the distribution, whose parameters only its family knows.
LogProbability = Callable[[Any, Tensor], Tensor]
LogTails = Callable[[Any, Tensor], tuple[Tensor, Tensor]]
Cdf = Callable[[Any, Tensor], Tensor]
Quantile = Callable[[Any, Tensor, Tensor], Tensor]


class CostFamily(NamedTuple):
    """Tail functions of one family; each takes the distribution first and works elementwise.

    `log_tails(d, value)` is the pair log Pr(c < value), log Pr(c >= value) in float64, for finite
    and infinite values.
    `quantile(d, log_p, log_q)` is the value at which the two are log_p and log_q; both are given,
    so that the smaller one can be inverted.
    `cdf(d, value)` is Pr(c < value) in float64, no gradient needed; exp(log_tails) by default.
    """

    log_tails: LogTails
    quantile: Quantile
    cdf: Cdf | None = None


_FAMILIES: dict[type, CostFamily] = {}
_NAMES: dict[str, type] = {}


def register_cost_family(
    distribution: type,
    log_cdf: LogProbability,
    log_survival: LogProbability,
    quantile: Quantile | None = None,
    *,
    name: str | None = None,
) -> None:
    """Make a continuous univariate distribution usable as a cost.

    :param distribution: the class; its subclasses are served too.
    :param log_cdf: function (d, value) -> log Pr(c < value), differentiable.
    :param log_survival: function (d, value) -> log Pr(c >= value), differentiable.
    :param quantile: function (d, log_p, log_q) -> value; found by bisection when left out.
    :param name: a string under which `cost_family=` finds the class.

    Example, the Gumbel distribution, whose log-CDF is -exp(-u):

    >>> import pyro.distributions as dist
    >>> from pyro_gcm.distributions import register_cost_family
    >>> from pyro_gcm.distributions.numerics import log1mexp
    >>> def log_cdf(d, value):
    ...     return -((d.loc - value) / d.scale).exp()
    >>> register_cost_family(dist.Gumbel, log_cdf, lambda d, v: log1mexp(log_cdf(d, v)))
    """
    if not isinstance(distribution, type):
        raise TypeError(f"distribution must be a class, got {distribution!r}")

    def log_tails(d: dist.Distribution, value: Tensor) -> tuple[Tensor, Tensor]:
        infinite = value.isinf()
        # An infinite value is replaced before the arithmetic, or 0 * inf would poison the
        # gradients. Its float64 lifts the whole computation, the family's parameters included.
        safe = torch.where(infinite, 1.0, value.double())
        up, down = infinite & (value > 0), infinite & (value < 0)
        below = log_cdf(d, safe).masked_fill(up, 0.0).masked_fill(down, -math.inf)
        above = log_survival(d, safe).masked_fill(up, -math.inf).masked_fill(down, 0.0)
        return below, above

    quantile = quantile or _bisection(log_cdf, log_survival)
    _FAMILIES[distribution] = CostFamily(log_tails, quantile)
    if name is not None:
        _NAMES[name] = distribution


def cost_family(distribution: type) -> CostFamily:
    """The registered functions of a distribution class.

    :raises TypeError: for a family that nobody registered.
    """
    for base in distribution.__mro__:
        if base in _FAMILIES:
            return _FAMILIES[base]
    known = ", ".join(sorted(cls.__name__ for cls in _FAMILIES))
    raise TypeError(
        f"{distribution.__name__} is not a registered cost family (known: {known}); "
        "see pyro_gcm.distributions.register_cost_family"
    )


def resolve_cost_family(family: str | type) -> type:
    """The distribution class that a `cost_family=` argument names.

    :raises ValueError: for an unknown name; TypeError for a class nobody registered.
    """
    if isinstance(family, str):
        if family not in _NAMES:
            raise ValueError(f"cost_family={family!r} is unknown; known names: {sorted(_NAMES)}")
        return _NAMES[family]
    cost_family(family)
    return family


def base_distribution(value: Any) -> Any:
    """The univariate distribution under `.to_event` and `.expand`."""
    while isinstance(value, torch.distributions.Independent | ExpandedDistribution):
        value = value.base_dist
    if value.event_shape:
        raise ValueError(
            "cost and revenue must have independent coordinates (a univariate distribution with "
            f".to_event), got {type(value).__name__}"
        )
    return value


def tail_log_probs(distribution: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Pr(d < value) and log Pr(d >= value) per coordinate, in float64."""
    base, value = _aligned(distribution, value)
    return cost_family(type(base)).log_tails(base, value)


def cdf(distribution: Any, value: Tensor) -> Tensor:
    """Pr(d < value) per coordinate, in float64; no gradient."""
    base, value = _aligned(distribution, value)
    family = cost_family(type(base))
    if family.cdf is None:
        return family.log_tails(base, value)[0].exp()
    return family.cdf(base, value)


def _aligned(distribution: Any, value: Tensor) -> tuple[Any, Tensor]:
    base = base_distribution(distribution)
    # With no dimension of its own a float64 value would take the dtype of the parameters.
    return base, value.expand(torch.broadcast_shapes(value.shape, base.batch_shape))


def _bisection(log_cdf: LogProbability, log_survival: LogProbability) -> Quantile:
    """Quantiles of a family that gave no closed form: bracket, then halve to the last bit."""

    def quantile(d: dist.Distribution, log_p: Tensor, log_q: Tensor) -> Tensor:
        use_p = log_p < log_q

        def too_high(value: Tensor) -> Tensor:
            high = torch.where(use_p, log_cdf(d, value) - log_p, log_q - log_survival(d, value))
            return high > 0.0

        # Zero and infinite log-probabilities sit at the ends of the support.
        low = torch.full_like(log_p, -1.0)
        high = torch.full_like(log_p, 1.0)
        for _ in range(1000):
            reach = too_high(low)
            if not reach.any():
                break
            low = torch.where(reach, low * 2.0, low)
        for _ in range(1000):
            reach = ~too_high(high) & high.isfinite()
            if not reach.any():
                break
            high = torch.where(reach, high * 2.0, high)
        for _ in range(128):
            middle = 0.5 * (low + high)
            above = too_high(middle)
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        return 0.5 * (low + high)

    return quantile


def _standardized(d: Any, value: Tensor) -> Tensor:
    return (value - d.loc) / d.scale


def _laplace_log_cdf(u: Tensor) -> Tensor:
    negative = u < 0
    below = torch.where(negative, u, 0.0) - LOG_2
    above = torch.log1p(-0.5 * torch.exp(-torch.where(negative, 0.0, u)))
    return torch.where(negative, below, above)


def _laplace_quantile(log_p: Tensor, log_q: Tensor) -> Tensor:
    lower = log_p < log_q
    u = torch.where(lower, log_p, log_q) + LOG_2
    return torch.where(lower, u, -u)


_FAMILIES[dist.Normal] = CostFamily(
    lambda d, value: normal_log_tails(value, d.loc, d.scale),
    lambda d, log_p, log_q: d.loc + d.scale * probit(log_p, log_q),
    lambda d, value: normal_cdf(value, d.loc, d.scale),
)
_NAMES["normal"] = dist.Normal
register_cost_family(
    dist.Logistic,
    lambda d, value: torch.nn.functional.logsigmoid(_standardized(d, value)),
    lambda d, value: torch.nn.functional.logsigmoid(-_standardized(d, value)),
    lambda d, log_p, log_q: d.loc + d.scale * (log_p - log_q),
    name="logistic",
)
register_cost_family(
    dist.Laplace,
    lambda d, value: _laplace_log_cdf(_standardized(d, value)),
    lambda d, value: _laplace_log_cdf(-_standardized(d, value)),
    lambda d, log_p, log_q: d.loc + d.scale * _laplace_quantile(log_p, log_q),
    name="laplace",
)
