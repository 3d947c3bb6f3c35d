"""How columns may change: to which values, and at what cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyro_gcm._utils.validation import as_tensor, kind, positive, shown
from pyro_gcm.estimators.directions import index_of
from pyro_gcm.estimators.encoding import ColumnEncoding
from pyro_gcm.estimators.table_encoding import TableEncoding
from pyro_gcm.estimators.targets import Array

#: A function of numbers by column, each [n], that returns those which follow from others.
Derive = Callable[[dict[Any, Array]], Mapping[Any, Array]]
#: The same with columns by their index.
Settled = Callable[[dict[int, Array]], dict[int, Array]]
#: New values of a column, about so many by default, and at most.
_VALUES, _MOST_VALUES = 100, 10_000


@dataclass(frozen=True)
class Move:
    """How a column may change in `recourse`.

    :param cost: of one unit of a number, of one level of an ordered category, of any change of
        another one. By default 1 for a category, and for a number 1 / its spread in the training
        rows (of a normal distribution with their quartiles), so that costs are in spreads.
    :param low: least new number, of all rows or of each, [n]; by default that of the training rows.
    :param high: largest new number, likewise.
    :param step: new numbers are multiples of it. By default it is 1, 2 or 5 times a power of ten,
        with 100 to 250 of them between the ends of the training rows, which are new numbers too;
        where all training rows have whole numbers, new ones are whole.
    :param values: all new values, levels or numbers, in place of `step`. A column without a
        direction needs them, and each is tried.
    """

    cost: float | None = None
    low: Any = None
    high: Any = None
    step: float | None = None
    values: Sequence[Any] | None = None


def checked_moves(
    movable: Any, encoding: TableEncoding, names: Sequence[Any], signs: Sequence[int], rows: int
) -> dict[int, Move]:
    """The moves by index of the column, with their costs, and bounds [rows].

    :param signs: directions of all columns.
    :raises TypeError: for what is no mapping to moves.
    :raises ValueError: for a column that is not known, and for what a move cannot be.
    """
    if not isinstance(movable, Mapping) or not movable:
        raise TypeError(f"movable must be a mapping from columns to Move, got {shown(movable)}")
    found = {}
    for feature, move in movable.items():
        at = index_of(feature, encoding, names, free=True)
        code, label = encoding.columns[at], encoding.columns[at].label
        if not isinstance(move, Move):
            raise TypeError(f"movable must have a Move for {label}, got {kind(move)}")
        if move.values is None and not signs[at]:
            raise ValueError(f"values of {label}, which has no direction, must be given, got None")
        if move.values is not None and not np.isfinite(code.positions(move.values)).all():
            raise ValueError(f"values of {label} must be finite, got {shown(move.values)}")
        idle = ["step"] if move.values is not None else []
        if code.kind != "number" or not signs[at]:
            idle = ["low", "high", "step"]
        for name in idle:
            if getattr(move, name) is not None:
                raise ValueError(f"{name} of {label} must be None: give its values instead")
        by_default = 1.0 / code.scale if code.kind == "number" else 1.0
        cost = by_default if move.cost is None else positive(f"cost of {label}", move.cost)
        if move.step is not None:
            positive(f"step of {label}", move.step)
        ends: dict[str, Any] = {}
        for name, end, ours in (("low", move.low, code.low), ("high", move.high, code.high)):
            given = as_tensor(f"{name} of {label}", ours if end is None else end).double().numpy()
            if given.shape not in ((), (rows,)) or not np.isfinite(given).all():
                wanted = f"must be a finite number, or one for each of {rows} rows"
                raise ValueError(f"{name} of {label} {wanted}, got {shown(end)}")
            ends[name] = np.broadcast_to(given, rows)
        found[at] = replace(move, cost=cost, **ends)
        if signs[at]:
            new_values(code, found[at])
    return found


def new_values(code: ColumnEncoding, move: Move) -> Array:
    """The numbers, or places of levels, that a column with a direction may take in some row.

    :raises ValueError: for a step that leaves too many.
    """
    if move.values is not None:
        return code.positions(move.values)
    step, low, high, ends = move.step, move.low.min(), move.high.max(), np.array([])
    if code.kind != "number":
        step = 1.0
    elif step is None:
        ends, rough = np.array([code.low, code.high]), (code.high - code.low or 1.0) / _VALUES
        ten = 10.0 ** np.floor(np.log10(rough))
        step = ten * max(each for each in (1, 2, 5) if each * ten <= rough * (1.0 + 1e-9))
        step = max(step, 1.0) if code.whole else step
    first, last = np.ceil(low / step), np.floor(high / step)
    if last - first >= _MOST_VALUES:
        raise ValueError(
            f"step of {code.label} must leave at most {_MOST_VALUES} numbers from low to high, got "
            f"{step:g}, which leaves {last - first + 1:.0f}"
        )
    digits = min(300.0, 14.0 - np.ceil(np.log10(max(abs(low), abs(high), step))))
    grid = np.round(np.arange(first, last + 1.0) * step, int(digits))  # 0.3, not 3 * 0.1
    return np.concatenate([grid, ends])


def steps_of(code: ColumnEncoding, turn: int, move: Move, now: Array) -> tuple[Array, Array]:
    """Values of rows from their own one on in the direction that helps, and what they cost.

    :param turn: that direction, +1 or -1.
    :param move: as of `checked_moves`.
    :param now: values of the rows, [n], NaN where one is missing, which has no other.
    :returns: [n, T + 1] and [n, T + 1], the costs infinite after the last value of a row.
    """
    grid = np.unique(turn * new_values(code, move))
    near, far = (turn * move.low, turn * move.high)[::turn]
    start, beyond = np.searchsorted(grid, near), np.searchsorted(grid, far, "right")
    first = np.maximum(start, np.searchsorted(grid, turn * now, "right"))
    most = max(0, int((beyond - first).max()))
    place = first[:, None] + np.arange(most)
    inside = place < np.where(np.isnan(now), 0, beyond)[:, None]
    steps = turn * grid[np.minimum(place, len(grid) - 1)] + 0.0
    with np.errstate(invalid="ignore"):
        costs = np.where(inside, move.cost * np.abs(steps - now[:, None]), np.inf)
    values = np.where(inside, steps, now[:, None])
    return np.column_stack([now, values]), np.column_stack([np.zeros(len(now)), costs])


def settled_by(
    derive: Derive, encoding: TableEncoding, names: Sequence[Any], moves: Mapping[int, Move]
) -> Settled:
    """The function with columns by their index, which keeps what is missing.

    :raises ValueError: when called, for what is no column that may follow, and for another shape.
    """

    def settled(known: dict[int, Array]) -> dict[int, Array]:
        found = {}
        for name, given in derive({names[at]: each for at, each in known.items()}).items():
            at = names.index(name) if name in names else -1
            if at not in known or at in moves or not encoding.columns[at].sign:
                raise ValueError(
                    "derive must return columns of numbers with a direction that are not movable, "
                    f"got {name!r}"
                )
            values, now = np.asarray(given, np.float64), known[at]
            if values.shape != now.shape:
                raise ValueError(f"derive must return {len(now)} numbers for {name!r}")
            found[at] = np.where(np.isnan(now) | np.isnan(values), now, values)
        return found

    return settled
