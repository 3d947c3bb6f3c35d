"""Cost families: the functions of a univariate distribution that an order event needs.

An order event needs log Pr(c < r) and log Pr(c >= r) of every cost with full precision in both
tails, and its exact cost posterior needs the quantiles of log-probabilities. The distributions of
torch offer neither, so every family of costs is registered here together with these functions:
those of `standard_families`, which are built in, and those that `register_cost_family` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from pyro.distributions.torch_distribution import ExpandedDistribution
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm._utils.validation import shown
from pyro_gcm.distributions.standard_families import BUILT_IN, StandardFamily

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


def _built_in(standard: StandardFamily) -> CostFamily:
    return CostFamily(
        lambda d, value: standard.log_tails(value, d.loc, d.scale),
        lambda d, log_p, log_q: d.loc + d.scale * standard.quantile_of_logs(log_p, log_q),
        ("loc", "scale"),
        standard=standard,
    )


for _class, (_name, _standard) in BUILT_IN.items():
    add_cost_family(_class, _built_in(_standard), _name)
