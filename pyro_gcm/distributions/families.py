"""Cost families: the functions of a univariate distribution that an order event needs.

An order event needs log Pr(c < r) and log Pr(c >= r) of every cost with full precision in both
tails, and its exact cost posterior needs the quantiles of log-probabilities. The distributions of
torch offer neither, so every family of costs is registered here together with these functions:
those that are built in, told once at loc 0 and scale 1, and those that `register_cost_family` adds.
Another built-in one is one more `StandardFamily`, and an entry of `BUILT_IN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pyro.distributions as dist
import torch
from pyro.distributions.torch_distribution import ExpandedDistribution
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.validation import broadcast_shapes, shown
from pyro_gcm.distributions.numerics import LOG_2, lifted, log1mexp, normal_log_tails, probit

Elementwise = Callable[[Tensor], Tensor]
TwoElementwise = Callable[[Tensor, Tensor], Tensor]
_TINY = 1e-300
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# The first argument is the distribution, whose parameters only its family knows.
LogProbability = Callable[[Any, Tensor], Tensor]
LogTails = Callable[[Any, Tensor], tuple[Tensor, Tensor]]
Quantile = Callable[[Any, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class StandardFamily:
    """A symmetric location-scale family at loc 0 and scale 1, in float64.

    :param tails: u -> Pr(c < u) and Pr(c >= u), each with full relative precision, in new tensors.
    :param pull: (weight, u, Pr(c < u)) -> weight times density over Pr(c < u), where nothing
        underflows before the result does; a new tensor.
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
    pull: Callable[[Tensor, Tensor, Tensor], Tensor]
    log_tails: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    quantile: Elementwise
    quantile_of_logs: TwoElementwise
    log_density: Elementwise
    log_interval: TwoElementwise
    two_tails: Elementwise
    unit: float = 1.0
    in_onnx: bool = True


class CostFamily(NamedTuple):
    """The functions of one family. Each takes the distribution first and works elementwise.

    `log_tails(d, value)` is the pair log Pr(c < value), log Pr(c >= value) in float64, for finite
    and infinite values.
    `quantile(d, log_p, log_q)` is the value at which the two are log_p and log_q. Both are given,
    so that the smaller one can be inverted.
    `parameters` names the tensors that determine a distribution of the class, and of which its
    constructor makes it; it is empty where these are not all.
    `standard` is the family at loc 0 and scale 1, for the product form of the event; without it the
    probabilities come from `log_tails`.
    `source` holds the functions that a user registered; it is empty for a built-in family.
    """

    log_tails: LogTails
    quantile: Quantile
    parameters: tuple[str, ...] = ()
    standard: StandardFamily | None = None
    source: tuple[Any, ...] = ()


_FAMILIES: dict[type, CostFamily] = {}
_NAMES: dict[str, type] = {}


def add_cost_family(
    distribution: type, family: CostFamily, name: str | None = None, *, replace: bool = False
) -> None:
    """Enter a family into the registry without checking its functions.

    :raises ValueError: if the class or the name is taken: always if it is built in, otherwise
        unless `replace` is set or the same definition runs again, as when a notebook cell does.
    """
    owner = distribution if name is None else _NAMES.get(name, distribution)
    for what, cls in (
        (f"distribution={distribution.__name__}", distribution),
        (f"name={name!r}", owner),
    ):
        old = _FAMILIES.get(cls)
        if old is None:
            continue
        if not old.source:
            raise ValueError(f"{what} belongs to a built-in family, which cannot be replaced")
        functions = zip(old.source, family.source, strict=True)
        again = all(_same_definition(*pair) for pair in ((cls, distribution), *functions))
        if not (replace or again):
            raise ValueError(f"{what} is registered already; pass replace=True to replace it")
    _FAMILIES[distribution] = family
    if name is not None:
        _NAMES[name] = distribution


def _same_definition(old: Any, new: Any) -> bool:
    """Whether two functions or classes are one, or come from one definition that ran twice."""
    if old is new or not all(isinstance(one, FunctionType | type) for one in (old, new)):
        return old is new
    same = (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
    return same and "<" not in new.__qualname__  # neither a lambda nor local to a function


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
    if not isinstance(family, str | type):
        raise TypeError(
            f"cost_family must be one of {sorted(_NAMES)}, a distribution class or a module, got "
            f"{shown(family)}"
        )
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
    registered: Any = next(cls for cls in type(base).__mro__ if cls in _FAMILIES)
    return registered(**parameters, validate_args=False)


def base_distribution(value: Any) -> Any:
    """The univariate distribution under `.to_event` and `.expand`.

    :raises ValueError: for a distribution whose coordinates are not independent.
    """
    while isinstance(value, torch.distributions.Independent | ExpandedDistribution):
        value = value.base_dist
    if value.event_shape:
        raise ValueError(
            "cost and revenue must have independent coordinates (a univariate distribution with "
            f".to_event), got {type(value).__name__}"
        )
    return value


def tail_log_probs(distribution: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Pr(d < value) and log Pr(d >= value) of every coordinate, in float64."""
    base = base_distribution(distribution)
    # Without dimensions of its own a float64 value would take the dtype of the parameters.
    value = value.expand(broadcast_shapes(value.shape, base.batch_shape))
    return cost_family(type(base)).log_tails(base, value)


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


def _by_root(root_density: Elementwise) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`pull` from the square root of the density, which underflows later than the density."""

    def pull(weight: Tensor, u: Tensor, up: Tensor) -> Tensor:
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
    pull=lambda weight, u, up: weight * torch.sigmoid(-u),  # the density is Pr(c < u) Pr(c >= u)
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


def _built_in(standard: StandardFamily) -> CostFamily:
    return CostFamily(
        lambda d, value: standard.log_tails(value, d.loc, d.scale),
        lambda d, log_p, log_q: d.loc + d.scale * standard.quantile_of_logs(log_p, log_q),
        ("loc", "scale"),
        standard=standard,
    )


for _class, (_name, _standard) in BUILT_IN.items():
    add_cost_family(_class, _built_in(_standard), _name)
