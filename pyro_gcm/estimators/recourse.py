"""The cheapest change of a few columns with which the prediction of a row reaches a level.

The changes of a row that reach the level are an upper set: from one of them on, every step of a
column in the direction that helps leads to another. Two corners therefore tell of a whole box of
changes: if the far one does not reach the level none in the box does, and if the near one does,
none in the box is cheaper. Boxes that are left are halved, the cheapest first, until none can hold
a change that is cheaper than the best one found (branch and bound, Land and Doig 1960).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm.data.tables import Table
from pyro_gcm.estimators.directions import OfRows
from pyro_gcm.estimators.moves import Move, Settled, steps_of
from pyro_gcm.estimators.table_encoding import TableEncoding
from pyro_gcm.estimators.targets import Array

Ints = npt.NDArray[np.int64]
#: Columns with a direction that change, by index, and new values of others.
Choice = tuple[tuple[int, ...], dict[int, Any]]
#: Boxes that are predicted together; choices of rows, and rows, that are held together.
_AT_ONCE, _CHOICES, _ROWS = 8192, 1 << 16, 256


class Change(NamedTuple):
    """A change of a row.

    :param row: of the table, from 0.
    :param values: new ones by index of the column, none where no change is enough.
    :param cost: infinite where no change is enough.
    :param prediction: after it; where none is enough, the nearest to the level that there is.
    """

    row: int
    values: dict[int, Any]
    cost: float
    prediction: float


class Question(NamedTuple):
    """What is asked of a model.

    :param of_rows: its predictions of encoded rows.
    :param moves: of columns by index, as of `checked_moves`.
    :param turns: of each column the direction that helps, +1 or -1, or 0 where it has none.
    :param level: that predictions are to reach, or, with `below`, to be below.
    :param most: columns that change together, at most.
    :param settled: as of `settled_by`, or None.
    """

    of_rows: OfRows
    encoding: TableEncoding
    moves: Mapping[int, Move]
    turns: Sequence[int]
    level: float
    below: bool
    most: int
    settled: Settled | None

    def reached(self, p: Array) -> npt.NDArray[np.bool_]:
        """Whether predictions are what they are to be."""
        return p < self.level if self.below else p >= self.level

    def choices(self) -> Iterator[Choice]:
        """All choices of columns and new values; those with the same values follow each other."""
        axes, free = ([at for at in self.moves if bool(self.turns[at]) == d] for d in (True, False))
        for used in range(min(self.most, len(free)) + 1):
            for some in combinations(free, used):
                for each in product(*(self.moves[at].values or () for at in some)):
                    new = dict(zip(some, each, strict=True))
                    for size in range(min(self.most - used, len(axes)) + 1):
                        yield from ((chosen, new) for chosen in combinations(axes, size))


def cheapest_changes(question: Question, columns: Table, count: int) -> Iterator[Change]:
    """The cheapest changes of the rows whose predictions do not reach the level, row by row.

    The first of a row costs least. Each next one costs least of those that do not change all
    columns of one before it.

    :param columns: of a table; `count`: of changes of a row, at most.
    :raises ValueError: for more choices than can be held.
    """
    choices = list(islice(question.choices(), _CHOICES + 1))
    if len(choices) > _CHOICES:
        raise ValueError(
            f"max_columns must leave at most {_CHOICES} choices of columns, and of values of those "
            f"without a direction, got {question.most}"
        )
    p = question.of_rows(*question.encoding(columns))
    refused, size = np.flatnonzero(~question.reached(p)), min(_ROWS, _CHOICES // len(choices))
    for start in range(0, len(refused), size):
        rows = refused[start : start + size]
        moves = {
            at: replace(move, low=move.low[rows], high=move.high[rows])
            for at, move in question.moves.items()
        }
        search = _Search(question._replace(moves=moves), columns.take(rows), choices)
        for change in search.changes(count):
            yield change._replace(row=int(rows[change.row]))


class _Boxes(NamedTuple):
    """N boxes: of which root each is, [N], its near and far corner, [N, D], the near one's cost."""

    root: Ints
    low: Ints
    high: Ints
    cost: Array

    def take(self, index: Any) -> _Boxes:
        return _Boxes(*(part[index] for part in self))


class _Search:
    """The changes of n rows, in R roots: choices of columns of a row, all of which change.

    Those with a direction change by one step or more, others to one value.

    Attributes: `values` and `costs` [n, D, T] of columns with a direction after each step, and `x`
    [V, n, d], covariates with each choice of values of others. Of each root `row`, `choice`,
    `variant` of x, `extra`, the cost of this one, and steps `low` and `high` [R, D] at the corners.
    """

    def __init__(self, question: Question, columns: Table, choices: Sequence[Choice]) -> None:
        self.question, self.choices = question, choices
        moves, turns, codes = question.moves, question.turns, question.encoding.columns
        self.axes, self.r = [at for at in moves if turns[at]], question.encoding(columns)[1]
        self.numbers = [at for at, code in enumerate(codes) if code.kind == "number"]
        self.now = {at: codes[at].numbers(columns[at]) for at in {*self.axes, *self.numbers}}
        tables = [steps_of(codes[at], turns[at], moves[at], self.now[at]) for at in self.axes]
        n, steps = len(self.r), max((costs.shape[1] for _, costs in tables), default=1)
        self.values = np.zeros((n, len(tables), steps))
        self.costs = np.full_like(self.values, np.inf)
        for at, (values, costs) in enumerate(tables):
            self.values[:, at, : values.shape[1]] = values
            self.costs[:, at, : costs.shape[1]] = costs
        most = np.isfinite(self.costs).sum(2) - 1
        parts, x, last = [], [], None
        for number, (chosen, new) in enumerate(choices):
            if new is not last:
                moved, extra, allowed, last = [*columns], np.zeros(n), np.ones(n, bool), new
                for at, value in new.items():
                    code, column = codes[at], columns[at]
                    moved[at] = code.filled(column, value)
                    now: Any = self.now.get(at, column.as_labels())
                    allowed &= ~column.is_missing & (now != value)
                    far = np.abs(now - value) if at in self.now else 1.0
                    unit: Any = moves[at].cost
                    extra += np.where(allowed, unit * far, 0.0)
                x.append(question.encoding(moved)[0])
            low = np.array([at in chosen for at in self.axes], np.int64)
            rows = np.flatnonzero(allowed & (most >= low).all(1) & bool(chosen or new))
            same = [np.full(len(rows), each) for each in (number, len(x) - 1)]
            parts.append((rows, *same, extra[rows], np.tile(low, (len(rows), 1)), low * most[rows]))
        self.row, self.choice, self.variant, self.extra, self.low, self.high = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        self.x = torch.stack(x)
        self.new = {
            at: np.array([new.get(at, np.nan) for _, new in choices]) for at in self.numbers
        }

    def changes(self, count: int) -> list[Change]:
        """As `cheapest_changes`, of rows that do not reach the level."""
        names = list(self.question.moves)
        sets = np.array(
            [[at in chosen or at in new for at in names] for chosen, new in self.choices]
        )
        nearest, every = self.question.of_rows(self.x[0], self.r), np.arange(len(self.row))
        far = self.predict(every, self.high)
        (np.minimum if self.question.below else np.maximum).at(nearest, self.row, far)
        if self.question.settled:
            far = self.best(every, self.low, self.high)
        left = every[self.question.reached(far)]
        found: list[Change] = []
        for _ in range(count):
            root, step, cost = self._cheapest(left)
            p, rows = self.predict(root, step), self.row[root]
            new = self._changed(root, step)
            found += map(Change, rows.tolist(), new, cost.tolist(), p.tolist())
            before = np.zeros((len(nearest), len(names)), bool)
            before[rows] = sets[self.choice[root]]
            left = left[(before[self.row[left]] & ~sets[self.choice[left]]).any(1)]
        none = sorted({*range(len(nearest))} - {change.row for change in found})
        found += [Change(row, {}, np.inf, float(nearest[row])) for row in none]
        return sorted(found, key=lambda change: change.row)

    def _cheapest(self, roots: Ints) -> tuple[Ints, Ints, Array]:
        """The cheapest change of each row that has one of these roots: root, steps and cost."""
        best, where = np.full(len(self.r), np.inf), np.zeros(len(self.r), np.int64)
        steps = np.zeros((len(best), len(self.axes)), np.int64)

        def offer(root: Ints, step: Ints) -> None:
            cost, row = self.cost(root, step), self.row[root]
            order = np.lexsort((cost, row))
            first = order[np.unique(row[order], return_index=True)[1]]
            first = first[cost[first] < best[row[first]]]
            here = row[first]
            best[here], where[here], steps[here] = cost[first], root[first], step[first]

        def opened(root: Ints, low: Ints, high: Ints) -> _Boxes:
            """Boxes without those whose near corner reaches the level, or is all of them."""
            reached = self.question.reached(self.predict(root, low))
            offer(root[reached], low[reached])
            boxes = _Boxes(root, low, high, self.cost(root, low))
            return boxes.take(~reached & (high > low).any(1))

        left = opened(roots, self.low[roots], self.high[roots])
        while len(left.root):
            left = left.take(np.lexsort((left.cost, self.row[left.root])))
            _, start, many = np.unique(self.row[left.root], return_index=True, return_counts=True)
            rank = np.arange(len(left.root)) - np.repeat(start, many)
            now = rank < max(1, _AT_ONCE // len(start))
            boxes, left = left.take(now), left.take(~now)
            boxes = boxes._replace(high=self._affordable(boxes, best))
            boxes = boxes.take(self.question.reached(self.best(*boxes[:3])))
            if not self.question.settled:  # where far corners are changes
                offer(boxes.root, boxes.high)
            root, low, high, cost = boxes.take((boxes.high > boxes.low).any(1))
            row, every = self.row[root, None], np.arange(len(root))
            widths = self._costs(row, high) - self._costs(row, low)
            at = np.where(high > low, widths, -1.0).argmax(1)
            far_low, near_high = low.copy(), high.copy()
            near_high[every, at] = (low + high)[every, at] // 2
            far_low[every, at] = near_high[every, at] + 1
            near = _Boxes(root, low, near_high, cost)
            near = near.take((near_high > low).any(1))
            parts = zip(left, near, opened(root, far_low, high), strict=True)
            left = _Boxes(*(np.concatenate(part) for part in parts))
            left = left.take(left.cost < best[self.row[left.root]])
        rows = np.flatnonzero(best < np.inf)
        return where[rows], steps[rows], best[rows]

    def _affordable(self, boxes: _Boxes, best: Array) -> Ints:
        """Far corners without steps that alone make a change dearer than the best one, [N, D]."""
        row, step = self.row[boxes.root, None], boxes.low.copy()
        most = (best[row[:, 0]] - boxes.cost)[:, None] + self._costs(row, step)
        for width in 2 ** np.arange(self.costs.shape[2].bit_length())[::-1]:
            next_ = np.minimum(step + width, boxes.high)
            step = np.where(self._costs(row, next_) <= most * (1.0 + 1e-9), next_, step)
        return step

    def _costs(self, row: Ints, step: Ints) -> Array:
        """What steps of each column cost, [N, D], for rows [N, 1]."""
        return self.costs[row, np.arange(len(self.axes)), step]

    def cost(self, root: Ints, step: Ints) -> Array:
        """What changes cost, [N]."""
        return self.extra[root] + self._costs(self.row[root, None], step).sum(1)

    def predict(self, root: Ints, step: Ints) -> Array:
        """Predictions after changes, [N]."""
        return self._of(root, self._numbers(root, step))

    def best(self, root: Ints, low: Ints, high: Ints) -> Array:
        """What no prediction in boxes is beyond, [N].

        Columns that follow from others are at their best corners, each for itself.
        """
        numbers = self._numbers(root, high)
        axes = range(len(self.axes)) if self.question.settled else ()
        for size in range(min(self.question.most, len(axes))):
            for some in combinations(axes, size):
                step = low.copy()
                step[:, some] = high[:, some]
                for at, values in self._numbers(root, step).items():
                    if at not in self.axes:
                        better = np.fmax if self.question.turns[at] > 0 else np.fmin
                        numbers[at] = better(numbers[at], values)
        return self._of(root, numbers)

    def _of(self, root: Ints, numbers: Mapping[int, Array]) -> Array:
        """Predictions with these numbers of columns with a direction, [N]."""
        row, encoding = self.row[root], self.question.encoding
        r = self.r[row].clone()
        for at, values in numbers.items():
            scaled = encoding.columns[at].scaled(torch.from_numpy(values))
            r[:, encoding.revenues.index(at)] = scaled
        x = self.x[self.variant[root], row]
        return self.question.of_rows(x, r) if len(root) else np.zeros(0)

    def _numbers(self, root: Ints, step: Ints) -> dict[int, Array]:
        """Columns that move in a direction, and those that follow, after changes, each [N]."""
        row, places = self.row[root], enumerate(self.axes)
        found = {at: self.values[row, number, step[:, number]] for number, at in places}
        if self.question.settled and len(root):
            new = {at: each[self.choice[root]] for at, each in self.new.items()}
            known = {
                at: np.where(np.isnan(each), self.now[at][row], each) for at, each in new.items()
            }
            known |= {at: each for at, each in found.items() if at in known}
            found |= self.question.settled(known)
        return found

    def _changed(self, root: Ints, step: Ints) -> list[dict[int, Any]]:
        """The new values after changes, by index of the column."""
        found, row = [{**self.choices[choice][1]} for choice in self.choice[root]], self.row[root]
        for at, values in self._numbers(root, step).items():
            code = self.question.encoding.columns[at]
            for place in np.flatnonzero(np.abs(values - self.now[at][row]) > 0.0):
                found[place][at] = code.values_at(values[place : place + 1]).tolist()[0]
        return found
