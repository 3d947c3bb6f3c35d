"""The base of the distributions, and what stands for a site whose value is left open."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes

Own = TypeVar("Own", bound="Expandable")
Outcome = TypeVar("Outcome", bound="EventOutcome")


@constraints.dependent_property(is_discrete=False)
def real_costs(self: Any) -> constraints.Constraint:
    """Support of a distribution of costs, [K] or [G, K]: all real numbers."""
    return constraints.independent(constraints.real, len(self.event_shape))


class Expandable(TorchDistribution):
    """Base of distributions whose parameters broadcast against their batch shape in every use."""

    arg_constraints: dict[str, Any] = {}

    def expand(self: Own, batch_shape: Any, _instance: Any = None) -> Own:
        """The same distribution with a larger batch shape; nothing is copied.

        :raises ValueError: if the batch shape does not broadcast to the new one.
        """
        new = copy.copy(self)
        own, new._batch_shape = self.batch_shape, torch.Size(batch_shape)
        if broadcast_shapes(own, new.batch_shape) != new.batch_shape:
            raise ValueError(
                f"batch_shape must be one to which {tuple(own)} broadcasts, got "
                f"{tuple(new.batch_shape)}"
            )
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Independent draws of shape `sample_shape + batch_shape + event_shape`."""
        return self._draw(torch.Size(sample_shape))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        raise NotImplementedError

    def _check(self, value: Tensor) -> None:
        """Check a value of the distribution, if it validates its arguments."""
        if self._validate_args:
            self._validate_sample(value)

    def _wide(self, values: Tensor) -> Tensor:
        """Values of a sample shape and part of the batch shape, with the whole batch shape."""
        return values.expand(broadcast_shapes(values.shape, self.batch_shape))


class Enumerable(Expandable):
    """Base of discrete outcomes 0 .. levels - 1."""

    has_enumerate_support = True
    levels = 2
    dtype: torch.dtype
    device: torch.device

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The outcomes along a new leftmost dimension."""
        values = torch.arange(self.levels, dtype=self.dtype, device=self.device)
        values = values.reshape(-1, *(1 for _ in self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


class EventOutcome(Expandable):
    """Base of outcomes that depend on the costs of an order event.

    The parameters named in `arg_constraints` are set before this constructor runs.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    """

    event: Any
    #: A draw of the costs, [..., (G,) K], given which the outcome is distributed, or None where
    #: they are integrated out.
    cost: Tensor | None
    #: Cached functions of the parameters that predictions read, of whole blocks of rows.
    computed: tuple[str, ...] = ()

    def __init__(
        self,
        event: Any,
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._depend_on(event, None)
        super().__init__(shape, torch.Size(event_shape), validate_args=validate_args)

    def _depend_on(self, event: Any, cost: Tensor | None) -> torch.Size:
        """Take on an event and costs; the batch shape together with those of the parameters."""
        self.event, self.cost, self.dtype, self.device = event, cost, event.dtype, event.device
        shapes = [getattr(self, name).shape for name in self.arg_constraints]
        if cost is not None:
            shapes.append(cost.shape[: cost.dim() - event.cost_event_dim])
        return broadcast_shapes(event.batch_shape, *shapes)

    def _of(self: Outcome, event: Any, cost: Tensor | None = None) -> Outcome:
        """The same outcome of another event, or with other costs."""
        new = copy.copy(self)
        new._batch_shape = new._depend_on(event, cost)
        return new

    def with_revenue(self: Outcome, revenue: Tensor) -> Outcome:
        """The same outcome at other revenues."""
        return self._of(self.event.with_revenue(revenue))

    @property
    def has_rows(self) -> bool:
        """Whether rows of the last batch dimension can be computed apart, with the same bits."""
        found: bool = self.event.has_rows
        return found

    def of_rows(self: Outcome, rows: slice) -> Outcome:
        """The outcome of some rows of the last batch dimension, for its predictions alone."""
        new = copy.copy(self)
        for name in (*self.arg_constraints, *self.computed):
            value = getattr(self, name)
            if value.dim() and value.shape[-1] > 1:
                new.__dict__[name] = value[..., rows]
        new._batch_shape = new._depend_on(self.event.of_rows(rows), None)
        return new

    def given_cost(self: Outcome, cost: Tensor) -> Outcome:
        """The outcome for a draw of the costs."""
        return self._of(self.event, cost)

    def marginalize(self: Outcome, cost: TorchDistribution) -> Outcome:
        """The outcome with its costs integrated out.

        :param cost: the distribution of the costs.
        """
        return self._of(self.event.marginalize(cost))

    def expand(self: Outcome, batch_shape: Any, _instance: Any = None) -> Outcome:
        """The same distribution with a larger batch shape.

        :raises ValueError: if the batch shape does not broadcast to the new one.
        """
        wide = super().expand(batch_shape).batch_shape
        return self._of(self.event.expand(wide), self.cost)


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
        self.name, self.fn, self.value = name, fn, value
        #: Whether an outcome has read it.
        self.is_used = False

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
