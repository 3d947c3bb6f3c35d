"""The columns of a table that are x, r and y."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm._utils.validation import kind, shown
from pyro_gcm.streams.source import Block

_NUMPY: dict[torch.dtype, type[np.floating[Any]]] = {
    torch.float32: np.float32,
    torch.float64: np.float64,
}


class Columns:
    """Names of the columns that are x, r and y, and the types in which they are read.

    x, and likewise r, is float64 if one of its columns is, and float32 otherwise.

    :param x: names of columns, at least one.
    :param r: names of columns, at least one.
    :param y: name of a column.
    :param types: the type of each column of the data, as messages show it.
    :param dtype_of: the dtype that holds the numbers of a type, or None if it has no numbers.
    :raises TypeError: for names that are no text, and for columns that have no numbers.
    :raises ValueError: for names that are not among the columns, or come twice.
    """

    def __init__(
        self,
        x: Sequence[str],
        r: Sequence[str],
        y: str,
        types: Mapping[str, Any],
        dtype_of: Callable[[Any], torch.dtype | None],
    ) -> None:
        if not isinstance(y, str):
            raise TypeError(f"y must be the name of a column of data, got {shown(y)}")
        self.names = {"x": _names("x", x), "r": _names("r", r), "y": [y]}
        self.dtypes = dict.fromkeys(self.names, torch.float32)
        seen: dict[str, str] = {}
        for argument, name in self.each():
            if name not in types:
                raise ValueError(
                    f"{argument} must name columns of data, got {name!r}: its columns are "
                    f"{list(types)}"
                )
            if name in seen:
                raise ValueError(
                    f"each column must be named once, got {name!r} in {seen[name]} and in "
                    f"{argument}"
                )
            seen[name] = argument
            dtype = dtype_of(types[name])
            if dtype is None:
                raise TypeError(
                    f"{argument} must name columns with numbers, got {name!r} with type "
                    f"{types[name]}"
                )
            self.dtypes[argument] = torch.promote_types(self.dtypes[argument], dtype)
        self.identity = {**self.names, "dtypes": [str(dtype) for dtype in self.dtypes.values()]}

    def each(self) -> list[tuple[str, str]]:
        """The pairs of an argument and the name of one of its columns."""
        return [(argument, name) for argument, names in self.names.items() for name in names]

    def block(self, rows: int, values: Mapping[str, npt.ArrayLike]) -> Block:
        """A block of rows, in memory of its own.

        :param values: of each column, [rows] or a single number.
        """
        found = {}
        for argument, names in self.names.items():
            array = np.empty((rows, len(names)), _NUMPY[self.dtypes[argument]])
            for j, name in enumerate(names):
                array[:, j] = values[name]
            found[argument] = torch.from_numpy(array)
        found["y"] = found["y"][:, 0]
        return found


def _names(argument: str, names: Any) -> list[str]:
    wanted = f"{argument} must be a sequence of names of columns of data"
    if isinstance(names, str):
        raise TypeError(f"{wanted}, got {names!r}: pass [{names!r}]")
    try:
        found = list(names)
    except TypeError:
        raise TypeError(f"{wanted}, got {shown(names)}") from None
    strange = [name for name in found if not isinstance(name, str)]
    if strange:
        raise TypeError(f"{wanted}, got {shown(strange[0])} of type {kind(strange[0])} in it")
    if not found:
        raise ValueError(f"{wanted}, got none")
    return found
