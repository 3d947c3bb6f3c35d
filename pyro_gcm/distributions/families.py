"""Cost families: the functions of a univariate distribution that an order event needs.

An order event needs log Pr(c < r) and log Pr(c >= r) of every cost with full precision in both
tails, and its exact cost posterior needs the quantiles of log-probabilities. The distributions of
torch offer neither, so every family of costs is registered here together with these functions:
those that are built in (`standard_families`), and those that `register_cost_family` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from pyro.distributions.torch_distribution import ExpandedDistribution
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.numerics import lifted, log1mexp
from pyro_gcm.distributions.standard_families import BUILT_IN, StandardFamily, log_standard_interval

# The first argument is the distribution, whose parameters only its family knows.
LogProbability = Callable[[Any, Tensor], Tensor]
LogTails = Callable[[Any, Tensor], tuple[Tensor, Tensor]]
Quantile = Callable[[Any, Tensor, Tensor], Tensor]


class CostFamily(NamedTuple):
    """The functions of one family. Each takes the distribution first and works elementwise.

    `log_tails(d, value)` is the pair log Pr(c < value), log Pr(c >= value) in float64, for finite
    and infinite values.
    `quantile(d, log_p, log_q)` is the value at which the two are log_p and log_q. Both are given,
    so that the smaller one can be inverted.
    `parameters` names the tensors that determine a distribution of the class, and of which its
    constructor makes it; it is empty where these are not all.
    `distribution` is the class itself.
    `standard` is the family at loc 0 and scale 1, for the product form of the event; without it the
    probabilities come from `log_tails`.
    """

    log_tails: LogTails
    quantile: Quantile
    parameters: tuple[str, ...]
    distribution: Any
    standard: StandardFamily | None = None


def _built_in(distribution: type, standard: StandardFamily) -> CostFamily:
    return CostFamily(
        lambda d, value: standard.log_tails(value, d.loc, d.scale),
        lambda d, log_p, log_q: d.loc + d.scale * standard.quantile_of_logs(log_p, log_q),
        ("loc", "scale"),
        distribution,
        standard,
    )


_FAMILIES: dict[type, CostFamily] = {cls: _built_in(cls, own) for cls, (_, own) in BUILT_IN.items()}
_NAMES: dict[str, type] = {name: cls for cls, (name, _) in BUILT_IN.items()}


def cost_family(distribution: type) -> CostFamily:
    """The registered functions of a distribution class, or of its closest registered base class.

    :raises TypeError: for a family that is not registered.
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
    """The distribution class that an argument `cost_family` names.

    :raises ValueError: for an unknown name.
    :raises TypeError: for a class that is not registered.
    """
    if isinstance(family, str):
        if family not in _NAMES:
            raise ValueError(f"cost_family={family!r} is unknown; known names: {sorted(_NAMES)}")
        return _NAMES[family]
    cost_family(family)
    return family


def name_of_family(distribution: type) -> str | None:
    """The name by which `resolve_cost_family` finds a class, if it has one."""
    return next((name for name, cls in _NAMES.items() if cls is distribution), None)


def parameters_of(base: Any) -> dict[str, Tensor]:
    """The tensors of which `of_same_family` makes a univariate distribution again, by name.

    They are empty for one that has other parts as well, and for a class that is not registered.
    """
    family = _FAMILIES.get(type(base))
    return {} if family is None else {name: getattr(base, name) for name in family.parameters}


def of_same_family(base: Any, **parameters: Tensor) -> Any:
    """A distribution of a family with other parameters.

    Of the registered class: a subclass may have another constructor.
    """
    return cost_family(type(base)).distribution(**parameters, validate_args=False)


def base_distribution(value: Any) -> Any:
    """The univariate distribution under `.to_event` and `.expand`."""
    while isinstance(value, torch.distributions.Independent | ExpandedDistribution):
        value = value.base_dist
    return value


def operand(name: str, value: Any) -> tuple[Any, Tensor, torch.Size, int]:
    """A cost or a revenue, the argument `name`, as an order event uses it.

    :returns: the univariate distribution of its coordinates, None for a tensor; the tensor or a
        parameter, for dtype and device; its shape; its event dimensions, 0 for a tensor.
    :raises TypeError: unless it is a tensor or a distribution of a registered family, with
        independent coordinates.
    :raises ValueError: for another event shape than [K] or [G, K].
    """
    if isinstance(value, Tensor):
        return None, value, value.shape, 0
    if not isinstance(value, torch.distributions.Distribution):
        raise TypeError(f"{name} must be a tensor or a distribution, got {type(value).__name__}")
    event_dim = len(value.event_shape)
    if event_dim not in (1, 2):
        raise ValueError(
            f"{name} has event_dim {event_dim}, expected 1 for [K] or 2 for [G, K]; use "
            ".to_event(1) or .to_event(2)"
        )
    base = base_distribution(value)
    cost_family(type(base))  # registered
    like = getattr(base, next(iter(base.arg_constraints)))
    return base, like, value.batch_shape + value.event_shape, event_dim


def tail_log_probs(distribution: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Pr(d < value) and log Pr(d >= value) of every coordinate, in float64."""
    base = base_distribution(distribution)
    # Without dimensions of its own a float64 value would take the dtype of the parameters.
    value = value.expand(broadcast_shapes(value.shape, base.batch_shape))
    return cost_family(type(base)).log_tails(base, value)


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
        log_p: Tensor = log_standard_interval(standard, *ends)
        return log_p
    tails = [tail_log_probs(base, value) for value in (low, high)]
    (below_low, above_low), (below_high, above_high) = tails
    from_below = below_high < above_low
    more = torch.where(from_below, below_high, above_low)
    less = torch.where(from_below, below_low, above_high)
    return more + log1mexp((less - more).clamp(max=-1e-300))


def gaussian_difference(cost: Any, revenue: Any) -> Any:
    """The distribution of c - r for independent Gaussian c and r (E_k in the paper's IGCM)."""
    if not all(isinstance(base, torch.distributions.Normal) for base in (cost, revenue)):
        raise ValueError(
            "a random revenue has a closed form for Gaussian cost and Gaussian revenue only, got "
            f"{type(cost).__name__} and {type(revenue).__name__}: sample the revenue"
        )
    scale = torch.hypot(cost.scale.double(), revenue.scale.double())
    return dist.Normal(cost.loc.double() - revenue.loc.double(), scale)


def draws_between(
    base: Any, low: Tensor, high: Tensor, shape: torch.Size, dtype: torch.dtype
) -> Tensor:
    """Draws of costs of this shape, given that they lie between two points that broadcast to it."""
    log_inside = log_interval(base, low, high)
    v = torch.rand(shape, dtype=torch.float64).to(log_inside.device)
    log_p = torch.logaddexp(tail_log_probs(base, low)[0], v.log() + log_inside)
    log_q = torch.logaddexp(tail_log_probs(base, high)[1], torch.log1p(-v) + log_inside)
    draw = cost_family(type(base)).quantile(base, log_p, log_q).to(dtype)
    highest = torch.nextafter(high.to(dtype), torch.full_like(high, -torch.inf, dtype=dtype))
    return torch.maximum(torch.minimum(draw, highest), low.to(dtype))


def register_cost_family(
    distribution: Any,
    log_cdf: LogProbability,
    log_survival: LogProbability,
    quantile: Quantile | None = None,
    *,
    name: str | None = None,
) -> None:
    """Make a continuous univariate distribution usable as a cost.

    Its functions take the place of those that the class, or the name, had before; whether they are
    right is tested by `pyro_gcm.testing.CostFamilyTests`.

    :param distribution: the class; its subclasses are served too.
    :param log_cdf: function (d, value) -> log Pr(c < value), differentiable.
    :param log_survival: function (d, value) -> log Pr(c >= value), differentiable. For the digits
        of the upper tail it must not be computed as log(1 - exp(log_cdf)).
    :param quantile: function (d, log_p, log_q) -> value; found by a search if left out.
    :param name: a string by which the argument `cost_family` of a model finds the class.
    :raises ValueError: if the class or the name is that of a built-in family.

    Example, the Cauchy distribution, whose distribution function is atan2(1, -u) / pi:

    >>> import math, pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import register_cost_family
    >>> def log_lower_tail(u):
    ...     return torch.log(torch.atan2(torch.ones_like(u), -u) / math.pi)
    >>> register_cost_family(
    ...     dist.Cauchy,
    ...     lambda d, value: log_lower_tail((value - d.loc) / d.scale),
    ...     lambda d, value: log_lower_tail((d.loc - value) / d.scale),
    ... )
    """
    if distribution in BUILT_IN or name in dict(BUILT_IN.values()):
        taken = f"distribution={distribution.__name__}"
        taken = taken if distribution in BUILT_IN else f"name={name!r}"
        raise ValueError(f"{taken} belongs to a built-in family, which cannot be replaced")

    def log_tails(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        return lifted(value, lambda finite: (log_cdf(d, finite), log_survival(d, finite)))

    quantile = quantile or _searched(log_cdf, log_survival)
    arguments, names = signature(distribution).parameters.values(), distribution.arg_constraints
    given = {a.name for a in arguments if a.kind != a.VAR_KEYWORD} - {"validate_args"}
    parameters = tuple(names) if given == {*names} else ()
    _FAMILIES[distribution] = CostFamily(log_tails, quantile, parameters, distribution)
    if name is not None:
        _NAMES[name] = distribution


def _searched(log_cdf: LogProbability, log_survival: LogProbability) -> Quantile:
    """Quantiles of a family without a closed form, to the last bit."""

    def quantile(d: Any, log_p: Tensor, log_q: Tensor) -> Tensor:
        def excess(value: Tensor) -> Tensor:
            from_p = log_cdf(d, value) - log_p
            return torch.where(log_p < log_q, from_p, log_q - log_survival(d, value))

        start = torch.zeros_like(log_p)
        return smallest_reaching(excess, 0.0, start, start + 1.0, doublings=1000)

    return quantile
