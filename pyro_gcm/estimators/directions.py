"""Columns with a direction: which they are, and predictions as one of them moves, in its units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.names import known_name
from pyro_gcm._utils.validation import shown, without_tensor
from pyro_gcm.data.tables import Column
from pyro_gcm.estimators.encoding import FAR, ColumnEncoding
from pyro_gcm.estimators.table_encoding import TableEncoding
from pyro_gcm.estimators.targets import Array

if TYPE_CHECKING:
    import pandas as pd

#: The direction of each column, +1, -1 or 0: by name, or one after the other.
Directions = Union[Mapping[str, int], Sequence[int], npt.NDArray[Any], "pd.Series[Any]", None]
#: Predictions [n] for x [n, d] and r [n, m], as an encoding returns them.
OfRows = Callable[..., Array]
#: Halvings of the range of the training rows.
_HALVINGS = 20


def categories(
    categorical_features: Any, columns: Sequence[Column], names: Sequence[str] | None
) -> list[bool]:
    """Whether each column is a category.

    :param categorical_features: "from_dtype", None, a mask, indices, or names of columns.
    :raises ValueError: for what names no column, and for text in a column that is no category.
    """
    if isinstance(categorical_features, str):
        if categorical_features != "from_dtype":
            raise ValueError(
                "categorical_features must be 'from_dtype', None, a mask, indices or names, got "
                f"{categorical_features!r}"
            )
        # An array has one type, which says nothing of a column.
        chosen = [column.categorical and names is not None for column in columns]
    else:
        listed = without_tensor(categorical_features)
        chosen = _chosen(listed, len(columns), names)
    for column, is_category in zip(columns, chosen, strict=True):
        if column.numbers is None and not is_category:
            example = next(label for label in column.as_labels() if label is not None)
            raise ValueError(
                f"{column.label} of X has text or categories, such as {example!r}: name it in "
                "categorical_features, pass a DataFrame with categorical_features='from_dtype', or "
                "make it numbers"
            )
    return chosen


def named_columns(wanted: Any, count: int, names: Sequence[str] | None) -> list[int]:
    """The indices of the columns of an option `concave`: names or indices, or None for none.

    :raises ValueError: for what names no column.
    """
    chosen = _chosen(without_tensor(wanted), count, names, "concave")
    return [at for at, is_named in enumerate(chosen) if is_named]


def _chosen(
    wanted: Any, count: int, names: Sequence[str] | None, option: str = "categorical_features"
) -> list[bool]:
    if wanted is None:
        return [False] * count
    entries = [*wanted] if isinstance(wanted, list) else [*np.asarray(wanted, object).ravel()]
    if len(entries) == count and all(isinstance(entry, bool | np.bool_) for entry in entries):
        return [bool(entry) for entry in entries]
    places = [_place(entry, names) for entry in entries]
    for place, entry in zip(places, entries, strict=True):
        if isinstance(place, bool) or place not in range(count):
            raise ValueError(
                f"{option} must be names or indices of columns, or a mask of all, got "
                f"{entry!r}, and X has {f'the columns {names}' if names else f'{count} columns'}"
            )
    return [place in places for place in range(count)]


def index_of(
    feature: Any, encoding: TableEncoding, names: Sequence[str] | None, *, free: bool = False
) -> int:
    """The index of a column, by its name or its index.

    :param free: whether it may be one without a direction.
    :raises ValueError: for another one.
    """
    known = None if names is None else list(names)
    place, these = _place(feature, known), encoding.revenues
    if free:
        these = [*range(len(encoding.columns))]
    if isinstance(place, bool) or place not in these:
        kind = "a column" if free else "a column with a direction in monotonic_cst"
        named = [known[j] if known else j for j in these]
        raise ValueError(f"feature must be {kind}, one of {named}, got {shown(feature)}")
    return int(place)


def _place(entry: Any, names: Sequence[str] | None) -> Any:
    """The index of a column of this name, or None; anything but a name as it is."""
    if not isinstance(entry, str | tuple):
        return entry
    name = known_name(str(entry), names or ())
    return next((place for place, each in enumerate(names or ()) if each == name), None)


class MovingColumn:
    """Rows of a table, of which one constrained column moves.

    :param encoding: of the table; `columns`: its columns; `index`: of the one that moves.

    Attributes: `code`, how the column is read; `values`, those it has [n].
    """

    def __init__(self, encoding: TableEncoding, columns: Sequence[Column], index: int) -> None:
        self.code: ColumnEncoding = encoding.columns[index]
        self.values: Array = self.code.numbers(columns[index])
        self.place = encoding.revenues.index(index)
        self.x, self.r = encoding(columns)
        if self.code.width:  # where it says of which rows the value is missing: now of none
            self.x[:, sum(code.width for code in encoding.columns[:index])] = 0.0

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, values: Array, repeats: int = 1) -> tuple[Tensor, Tensor]:
        """x and r with these values in place, [repeats * n], the rows one after the other."""
        r = self.r.repeat(repeats, 1)
        r[:, self.place] = self.code.scaled(torch.from_numpy(values))
        return self.x.repeat(repeats, 1), r

    def required(self, model: Any, levels: Array, below: bool) -> Array:
        """The values [S, n] at which predictions reach levels [S, n], or are below them.

        Of a category it is the place.
        """
        x, r = self.x.repeat(len(levels), 1), self.r.repeat(len(levels), 1)
        r[:, self.place] = torch.nan
        wanted = torch.from_numpy(levels).flatten()
        found = model.required_revenue(x, wanted, revenue=self.place, r=r)
        positions = found.double().numpy().reshape(levels.shape)
        values = first_reaching(positions, self.code, below)
        return values if self.code.kind == "number" else self.code.next_level(values, below)


def first_reaching(positions: Array, code: ColumnEncoding, below: bool = False) -> Array:
    """The value at which the column, in units of the model, has just reached a position.

    That is the smallest value of an increasing column, and the largest of a decreasing one; with
    `below` the one next to it, the last that has not. It is infinite where the position is reached
    wherever one looks (on the low side of the prediction), or nowhere (on the high side).

    :param positions: float32 numbers or infinite, [...].
    """
    near, turn = np.clip(positions, -FAR, FAR), -1.0 if below else 1.0
    width = np.maximum(np.abs(near), 1e-30) * 2.0**-23
    target = near.astype(np.float32)
    if below:  # up to the number before it, from the other side
        target = np.nextafter(target, np.float32(-np.inf))

    aim = torch.from_numpy(target)

    def reached(turned: Tensor) -> Tensor:
        return turn * (code.scaled(code.sign * turn * turned).double() - aim)

    loc = torch.from_numpy(turn * (near * code.scale + code.sign * code.loc))
    found = smallest_reaching(reached, 0.0, loc, torch.from_numpy(width * code.scale)).numpy()
    found = np.where(positions <= -FAR, -np.inf, np.where(positions > FAR, np.inf, turn * found))
    return code.sign * found


def first_between(predict: OfRows, moving: MovingColumn, levels: Array) -> Array:
    """`first_reaching` among the values of the training rows, to a millionth of their range.

    Infinite, on either side, where it is not among them.

    :param levels: of the predictions, [repeats * n], for the rows one after the other.
    """
    code, repeats = moving.code, len(levels) // len(moving)

    def function(values: Array) -> Array:
        return predict(*moving.rows(values, repeats))

    low, high = (np.full(len(levels), end) for end in (code.low, code.high)[:: code.sign])
    always, never = function(low) >= levels, function(high) < levels
    for _ in range(_HALVINGS):
        middle = low + 0.5 * (high - low)
        reached = function(middle) >= levels
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    high[always], high[never] = -code.sign * np.inf, code.sign * np.inf
    return high
