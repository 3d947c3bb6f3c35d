"""The two sides of an order event: a cost and a revenue, each a tensor or a distribution.

In a generative story `Left` stands for a cost: for its distribution, or a draw of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.distributions.base import distributions
from pyro_gcm.distributions.families import base_distribution, cost_family


class Left:
    """A site whose value may be left open: its distribution, and its value where there is one.

    An `OrderEvent` takes it for its cost, and integrates it out or compares the value. Any other
    use of it is an error, because the same line has to serve where there is no value.

    :param name: of the site.
    :param fn: its distribution.
    :param value: a draw, or None where the site is integrated out.
    """

    __slots__ = ("fn", "is_used", "name", "value")

    def __init__(self, name: str, fn: Any, value: Tensor | None = None) -> None:
        self.name, self.fn, self.value, self.is_used = name, fn, value, False

    @property
    def side(self) -> Any:
        """The operand of an order event: the value, or the distribution."""
        self.is_used = True
        return self.fn if self.value is None else self.value

    @property
    def shape(self) -> Any:
        """The shape that a value has."""
        return self.fn.shape()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            f"site '{self.name}' is integrated out, so that it has no value to compute with: it "
            "may go to y_dist or OrderEvent alone. Shift or scale its distribution instead, for "
            "costs in c_dist"
        )

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        self._refuse()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        flat = [v for part in given for v in (part if isinstance(part, list | tuple) else [part])]
        next(v for v in flat if isinstance(v, Left))._refuse()


_OPERATORS = "add sub mul truediv floordiv mod pow matmul lt le gt ge eq ne neg pos abs getitem"
for _name in _OPERATORS.split():
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(Left, _operator, Left._refuse)
Left.__hash__ = object.__hash__  # type: ignore[method-assign]


def sides(cost: Any) -> tuple[Any, Any]:
    """The distribution of a cost, and its value or None: of a `Left`, or a distribution."""
    if not isinstance(cost, Left):
        return cost, None
    cost.is_used = True
    return cost.fn, cost.value


class Side(NamedTuple):
    """A cost or a revenue as an order event uses it."""

    base_dist: Any  # the univariate distribution of its coordinates; None for a tensor
    like: Tensor  # the tensor itself, or a parameter, for dtype and device
    shape: torch.Size
    event_dim: int  # 0 for a tensor, which does not determine it


def side(name: str, value: Any) -> Side:
    """Interpret an argument of `OrderEvent`, called `name`.

    :raises TypeError: unless it is a tensor or a distribution of a registered family.
    :raises ValueError: for another event shape than [K] or [G, K], or dependent coordinates.
    """
    if isinstance(value, Tensor):
        return Side(None, value, value.shape, 0)
    if not isinstance(value, torch.distributions.Distribution):
        raise TypeError(f"{name} must be a tensor or a distribution, got {type(value).__name__}")
    base = univariate(name, value)
    cost_family(type(base))  # registered
    parameter: Tensor = getattr(base, next(iter(base.arg_constraints)))
    return Side(base, parameter, value.batch_shape + value.event_shape, len(value.event_shape))


def univariate(name: str, value: Any) -> Any:
    """The univariate distribution of the coordinates of a cost or a revenue, [K] or [G, K].

    :param name: of the argument, for an error.
    :raises TypeError: unless it is a distribution.
    :raises ValueError: for another event shape, and for dependent coordinates.
    """
    distributions(**{name: value})
    if len(value.event_shape) not in (1, 2):
        raise ValueError(
            f"{name} has event_dim {len(value.event_shape)}, expected 1 for [K] or 2 for [G, K]; "
            "use .to_event(1) or .to_event(2)"
        )
    return base_distribution(value)


def gaussian_difference(cost: Any, revenue: Any) -> Any:
    """The distribution of c - r for independent Gaussian c and r (E_k in the paper's IGCM)."""
    for base in (cost, revenue):
        if not isinstance(base, torch.distributions.Normal):
            raise ValueError(
                "a random revenue has a closed form for Gaussian cost and Gaussian revenue only, "
                f"got {type(cost).__name__} and {type(revenue).__name__}: sample the revenue"
            )
    scale = torch.hypot(cost.scale.double(), revenue.scale.double())
    return dist.Normal(cost.loc.double() - revenue.loc.double(), scale)
