"""What stands for a cost in a generative story: its distribution, or a draw of it."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import Tensor


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
        """What an order event compares: the value, or the distribution."""
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
