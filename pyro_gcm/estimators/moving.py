"""Predictions as one constrained column moves, and where they reach a level, in its units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.validation import shown
from pyro_gcm.data.tables import Column, known_name
from pyro_gcm.estimators.encoding import FAR, ColumnEncoding, TableEncoding
from pyro_gcm.estimators.targets import Array

#: Predictions [n] for values [n] of one column, in its own units, all else fixed.
OfColumn = Callable[[Array], Array]
#: Predictions [n] for x [n, d] and r [n, m], as an encoding returns them.
OfRows = Callable[..., Array]
#: Halvings of the range of the training rows.
_HALVINGS = 20
#: Doublings of the step back from a level that has been reached.
_STEPS_BACK = 64


def index_of(feature: Any, encoding: TableEncoding, names: Sequence[str] | None) -> int:
    """The index of a constrained column of numbers, by its name or its index.

    :raises ValueError: for another one.
    """
    known = [] if names is None else list(names)
    constrained = [known[j] if known else j for j in encoding.revenues]
    name = known_name(str(feature), known)
    at: Any = known.index(name) if isinstance(feature, str | tuple) and name in known else feature
    if not isinstance(at, Integral) or isinstance(at, bool) or at not in encoding.revenues:
        raise ValueError(
            f"feature must be a column with a direction in monotonic_cst, one of {constrained}, "
            f"got {shown(feature)}"
        )
    return int(at)


class MovingColumn:
    """Rows of a table, of which one constrained column moves.

    :param encoding: of the table; `columns`: its columns; `index`: of the one that moves.

    Attributes: `code`, how the column is read; `values`, those it has [n].
    """

    def __init__(self, encoding: TableEncoding, columns: Sequence[Column], index: int) -> None:
        self.code: ColumnEncoding = encoding.columns[index]
        self.values: Array = self.code.numbers(columns[index])
        self.place = encoding.revenues.index(index)
        # A value takes the place of one that is missing.
        count, label = len(self.values), self.code.label
        if self.code.kind == "number":
            stand_in = Column(label, np.full(count, self.code.loc))
        elif not self.code.levels:
            raise ValueError(f"{label} has a type without levels, so none can be found")
        else:
            stand_in = Column(label, labels=np.full(count, self.code.levels[0], dtype=object))
        self.x, self.r = encoding([*columns[:index], stand_in, *columns[index + 1 :]])

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, values: Array, repeats: int = 1) -> tuple[Tensor, Tensor]:
        """x and r with these values in place, [repeats * n], the rows one after the other."""
        r = self.r.repeat(repeats, 1)
        r[:, self.place] = torch.from_numpy(self.code.scaled(values))
        return self.x.repeat(repeats, 1), r

    def required(
        self, models: Sequence[Any], level: float, below: bool, each: bool = False
    ) -> Array:
        """The value at which predictions reach a level, or are below it; of a category its place.

        :param each: whether also those of each member.
        :returns: [S, n], a row for each model, after that of its members.
        """
        found = [model.reaching(self.x, self.r, level, self.place, each=each) for model in models]
        positions = torch.cat(found).double().numpy()
        values = (last_below if below else first_reaching)(positions, self.code)
        return values if self.code.kind == "number" else self.code.next_level(values, below)

    def function(self, predict: OfRows, repeats: int = 1) -> OfColumn:
        """`predict` of x and r as a function of the values."""
        return lambda values: predict(*self.rows(values, repeats))


def first_reaching(positions: Array, code: ColumnEncoding) -> Array:
    """The value at which the column, in units of the model, has just reached a position.

    That is the smallest value of an increasing column, and the largest of a decreasing one. It is
    infinite where the position is reached wherever one looks (on the low side of the prediction),
    or nowhere (on the high side).

    :param positions: float32 numbers or infinite, [...].
    """
    near = np.clip(positions, -FAR, FAR)
    target, width = torch.from_numpy(near), np.maximum(np.abs(near), 1e-30) * 2.0**-23

    def above(turned: Tensor) -> Tensor:
        return torch.from_numpy(code.scaled(code.sign * turned.numpy())) - target

    loc = torch.from_numpy(near * code.scale + code.sign * code.loc)
    found = smallest_reaching(above, 0.0, loc, torch.from_numpy(width * code.scale)).numpy()
    found = np.where(positions <= -FAR, -np.inf, np.where(positions > FAR, np.inf, found))
    return code.sign * found


def first_between(function: OfColumn, levels: Array, code: ColumnEncoding) -> Array:
    """`first_reaching` among the values of the training rows, to a millionth of their range.

    Infinite, on either side, where it is not among them.
    """
    low, high = (np.full(len(levels), end) for end in (code.low, code.high)[:: code.sign])
    always, never = function(low) >= levels, function(high) < levels
    for _ in range(_HALVINGS):
        middle = low + 0.5 * (high - low)
        reached = function(middle) >= levels
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    high[always], high[never] = -code.sign * np.inf, code.sign * np.inf
    return high


def last_below(positions: Array, code: ColumnEncoding) -> Array:
    """A value at which the column is still below a position, as close as can be told, [...]."""
    found = first_reaching(positions, code)
    finite = np.isfinite(found)
    start = np.where(finite, found, code.loc)
    step = np.maximum(np.spacing(np.abs(start)), 2.0**-58 * code.scale)
    for _ in range(_STEPS_BACK):
        back = start - code.sign * step
        reached = finite & (code.scaled(back) >= positions)
        if not reached.any():
            break
        step = np.where(reached, 2.0 * step, step)
    return np.where(finite, back, found)
