"""Cost families of a user's own: registration, and the check of their functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import transform_to

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm.distributions.families import CostFamily, LogProbability, Quantile, add_cost_family
from pyro_gcm.distributions.numerics import lifted


def register_cost_family(
    distribution: type,
    log_cdf: LogProbability,
    log_survival: LogProbability,
    quantile: Quantile | None = None,
    *,
    name: str | None = None,
    example: Any = None,
    replace: bool = False,
) -> None:
    """Make a continuous univariate distribution usable as a cost.

    Its functions are compared with each other and with its density, at draws from it.

    :param distribution: the class; its subclasses are served too.
    :param log_cdf: function (d, value) -> log Pr(c < value), differentiable.
    :param log_survival: function (d, value) -> log Pr(c >= value), differentiable. For the digits
        of the upper tail it must not be computed as log(1 - exp(log_cdf)).
    :param quantile: function (d, log_p, log_q) -> value; found by a search if left out.
    :param name: a string by which the argument `cost_family` of a model finds the class.
    :param example: a distribution of the class on which the functions are checked. By default one
        with typical parameters is made from the class's `arg_constraints`.
    :param replace: whether to replace an earlier registration of the class or the name by the
        user. Built-in families cannot be replaced.
    :raises TypeError: if `distribution` is not a class.
    :raises ValueError: if the class or the name is taken, if a function is wrong, or if an example
        is needed. Registering the same module-level functions again, as a notebook cell that runs
        twice does, is no error.

    Example, the Cauchy distribution, whose distribution function is atan2(1, -u) / pi:

    >>> import math, pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import register_cost_family
    >>> def log_lower_tail(u):
    ...     return torch.log(torch.atan2(torch.ones_like(u), -u) / math.pi)
    >>> register_cost_family(
    ...     dist.Cauchy,
    ...     lambda d, value: log_lower_tail((value - d.loc) / d.scale),
    ...     lambda d, value: log_lower_tail((d.loc - value) / d.scale),
    ...     replace=True,
    ... )
    """
    if not isinstance(distribution, type):
        raise TypeError(f"distribution must be a class, got {distribution!r}")
    example = example or _typical(distribution)
    _check_functions(example, log_cdf, log_survival, quantile)

    def log_tails(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        return lifted(value, lambda finite: (log_cdf(d, finite), log_survival(d, finite)))

    source = log_cdf, log_survival, quantile
    found = quantile or _searched(log_cdf, log_survival)
    family = CostFamily(log_tails, found, _parameters(example), source=source)
    add_cost_family(distribution, family, name, replace=replace)


def _typical(distribution: Any) -> Any:
    """Three distributions of a class, with different parameters inside their constraints."""
    points = torch.tensor([-0.7, 0.2, 0.9], dtype=torch.float64)
    try:
        wanted = enumerate(distribution.arg_constraints.items())
        made = {name: transform_to(inside)(points.roll(i)) for i, (name, inside) in wanted}
        return distribution(**made)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise ValueError(
            f"example must be given: {distribution.__name__} cannot be made from its "
            f"arg_constraints alone ({error})"
        ) from error


def _parameters(d: Any) -> tuple[str, ...]:
    """Names of the tensors that define a distribution."""
    names = tuple(d.arg_constraints)
    try:
        again = type(d)(**{name: getattr(d, name) for name in names}, validate_args=False)
        with Randomness(0).in_use():
            value = d.sample()
        return names if torch.equal(again.log_prob(value), d.log_prob(value)) else ()
    except (AttributeError, TypeError, ValueError):
        return ()


@torch.no_grad()
def _check_functions(
    d: Any, log_cdf: LogProbability, log_survival: LogProbability, quantile: Quantile | None
) -> None:
    if d.event_shape or d.support.is_discrete:
        raise ValueError("distribution must be continuous and univariate")
    count, kind = 1000, type(d).__name__
    with Randomness(0).in_use():
        draws = d.sample((count,)).double().sort(0).values
    spread = draws[3 * count // 4] - draws[count // 4]  # the distance of the quartiles
    value, step = draws[count // 10 : -count // 10], 1e-4 * spread
    density = d.log_prob(value).exp().double()

    def refuse_unless(near: Tensor, name: str, problem: str) -> None:
        if not near.all():
            at = value[~near][0].item()
            raise ValueError(f"{name} is wrong for {kind}: {problem}, for example at value={at:g}")

    def probability(name: str, function: LogProbability, sign: float) -> Tensor:
        log_p, low, high = (function(d, value + shift) for shift in (0.0, -step, step))
        if not isinstance(log_p, Tensor) or log_p.shape != value.shape:
            raise ValueError(f"{name} must return a tensor of the shape of value")
        refuse_unless(log_p <= 1e-9, name, "it is not the logarithm of a probability")
        slope = sign * (high.exp() - low.exp()) / (2.0 * step)
        close = (slope - density).abs() <= 5e-3 * density + 1e-3 / spread
        refuse_unless(close, name, "its slope does not agree with the density of log_prob")
        return log_p

    log_p = probability("log_cdf", log_cdf, 1.0)
    rank = torch.linspace(0.1, 0.9, len(value), dtype=torch.float64)
    near = (log_p.exp() - rank.reshape(-1, *(1,) * (value.dim() - 1))).abs() < 0.1
    refuse_unless(near, "log_cdf", "it does not agree with the share of draws below the value")
    log_q = probability("log_survival", log_survival, -1.0)
    total = log_p.exp() + log_q.exp()
    refuse_unless((total - 1.0).abs() < 1e-6, "log_survival", "it and log_cdf do not add up to 1")
    if quantile is not None:
        near = (quantile(d, log_p, log_q) - value).abs() < 1e-4 * spread
        refuse_unless(near, "quantile", "it does not return the value of its log-probabilities")


def _searched(log_cdf: LogProbability, log_survival: LogProbability) -> Quantile:
    """Quantiles of a family without a closed form, to the last bit."""

    def quantile(d: Any, log_p: Tensor, log_q: Tensor) -> Tensor:
        def excess(value: Tensor) -> Tensor:
            from_p = log_cdf(d, value) - log_p
            return torch.where(log_p < log_q, from_p, log_q - log_survival(d, value))

        start = torch.zeros_like(log_p)
        return smallest_reaching(excess, 0.0, start, start + 1.0, doublings=1000)

    return quantile
