"""A proof for boosted trees, which are constant between the values of their splits.

A step takes one column from one cell between two such values to the next. Whoever is monotone in
every step is monotone, in all columns together, too. In a step few trees change, each by the
difference of two leaves whose boxes touch there: where the least differences of all trees add up
to no fall, none is possible; elsewhere branch and bound looks for boxes that meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.audit.audit import rounding_of
from pyro_gcm.audit.cells import Grid
from pyro_gcm.audit.pairs import Array
from pyro_gcm.audit.result import VERDICTS, TreeProof
from pyro_gcm.audit.rows import MovedRows
from pyro_gcm.audit.trees import Forest, Mask, Tree, Unreadable, splits_of

#: Boxes that branch and bound opens at most, and rows that compare trees with predictions.
_BOXES, _COMPARED = 20_000, 2_000


def prove(
    forest: Forest,
    predict: Callable[[Any], Any],
    table: MovedRows,
    tolerance: float | None = None,
    progress: bool = True,
) -> TreeProof:
    """Prove that predictions rise in the constrained columns, or find a pair that falls.

    :param predict: a function of a table to one number a row, which rises with the trees' sum.
    :param table: the rows, whose constrained columns have directions.
    :param tolerance: fraction of max(1, abs(prediction)) that counts as rounding.
    :raises Unreadable: where the trees say nothing about these columns, or are not what predicts.
    """
    from tqdm.auto import tqdm

    grid, names = Grid(forest), [*table.frame.columns]
    signs = {names.index(name): sign for name, sign in zip(table.names, table.signs, strict=True)}
    for column, name in zip(signs, table.names, strict=True):
        if column in grid.levels:
            raise Unreadable(f"{name} has a direction, and is a category for it")
    signs = {column: sign for column, sign in signs.items() if column in grid.thresholds}
    steps = sum(len(grid.thresholds[column]) for column in signs)
    count = len(forest.trees), steps
    if not steps:
        return TreeProof(VERDICTS[0], *count)
    search = _Steps(forest, grid, predict, table, signs, tolerance)
    bar = tqdm(total=len(forest.trees) + steps, disable=not progress, delay=2, desc="trees")
    with bar, np.errstate(over="ignore"):
        search.compare()
        search.every_tree(bar)
        if not search.open:
            return TreeProof(VERDICTS[0], *count)
        found = search.single_moves(bar) or search.any_moves()
    if isinstance(found, str):
        return TreeProof(VERDICTS[2], *count, found)
    return TreeProof(VERDICTS[3] if found else VERDICTS[1], *count, "", *found)


class _Steps:
    """Steps over split values, of which `open` are not proved so far."""

    def __init__(
        self,
        forest: Forest,
        grid: Grid,
        predict: Callable[[Any], Any],
        table: MovedRows,
        signs: dict[int, int],
        tolerance: float | None,
    ) -> None:
        self.forest, self.grid, self.signs = forest, grid, signs
        self.columns, names = [*grid.thresholds], [*table.frame.columns]
        self.table = moved = table.of([names[column] for column in self.columns])
        self.predict = lambda rows, values: np.asarray(predict(moved.with_values(rows, values)))
        self.every = np.arange(len(self.table.values))
        self.rounding = rounding_of(self.predict(self.every[:3], self.table.values[:3]).dtype)
        self.tolerance = self.rounding if tolerance is None else tolerance
        # Falls of the trees' sum in a step: those of all steps together may be rounding.
        self.limit = -self.tolerance / sum(len(grid.thresholds[column]) for column in signs)
        self.trees: dict[tuple[int, int], list[Tree]] = defaultdict(list)  # that change in a step
        self.open: list[tuple[int, int]] = []  # columns, and cells before the step

    def compare(self) -> None:
        """Compare predictions with the trees' sums at rows, and on both sides of split values."""
        if self.forest.codes is None:
            return
        rng = np.random.default_rng(0)
        rows, values = [rng.permutation(self.every)[:_COMPARED]], [self.table.values]
        values[0] = values[0][rows[0]]
        for place, column in enumerate(self.columns):
            cuts = self.grid.thresholds[column]
            sides = np.concatenate([cuts, np.nextafter(cuts, np.inf)])
            rows.append(rng.integers(len(self.every), size=len(sides)))
            values.append(self.table.values[rows[-1]])
            values[-1][:, place] = sides
        every, numbers = np.concatenate(rows), np.concatenate(values)
        sums = self.grid.sums(self.forest, self._cells(every, numbers))
        self.limit *= max(1.0, float(np.abs(sums).max()))
        predictions = self.predict(every, numbers).astype(np.float64)
        ordered = predictions[np.lexsort((-predictions, sums))]
        if _drop(ordered[None], 16.0 * self.rounding)[0].max() > 0.0:
            raise Unreadable("its predictions do not rise with the sum of its trees")

    def _cells(self, rows: npt.NDArray[np.int64], values: Array) -> npt.NDArray[np.int64]:
        assert self.forest.codes is not None
        given = self.table.with_values(rows, values)
        codes = self.forest.codes(given) if self.grid.levels else {}
        numbers = np.where(self.table.missing[rows], np.nan, values).T
        return self.grid.cells(dict(zip(self.columns, numbers, strict=True)), codes)

    def every_tree(self, bar: Any) -> None:
        """Add up the least differences of every tree; the steps without a fall are proved."""
        grid = self.grid
        bounds = {c: np.zeros(len(grid.thresholds[c])) for c in self.signs}
        for column in self.signs.keys() & self.forest.derived:
            bounds[column] -= np.inf
        for tree in self.forest.trees:
            bar.update()
            boxes, values = grid.leaves(tree)
            tests = defaultdict[int, set[Any]](set)
            for split in splits_of(tree):
                tests[split.column].add(split.test)
            meets = {}
            for column in tests:
                cells = boxes[:, grid.parts[column]].astype(np.float32)
                meets[column] = cells @ cells.T > 0.0
            for column in self.signs.keys() & tests:
                others = [meets[other] for other in tests if other != column]
                gain = self.signs[column] * (values - values[:, None])
                gain[~np.logical_and.reduce(others, initial=True, axis=0)] = np.inf
                inside = boxes[:, grid.parts[column]]
                cuts = grid.thresholds[column]
                for cell in np.flatnonzero(np.isin(cuts, [*tests[column]])):
                    bounds[column][cell] += gain[inside[:, cell]][:, inside[:, cell + 1]].min()
                    self.trees[column, int(cell)].append(tree)
        for column, bound in bounds.items():
            left = np.flatnonzero(bound < self.limit)
            self.open += [(column, int(cell)) for cell in left]

    def single_moves(self, bar: Any) -> tuple[Any, ...]:
        """The worst fall of rows of the table in one column, between any two of its cells."""
        worst: tuple[float, int, int, float, float] = 0.0, 0, 0, 0.0, 0.0
        for column in sorted({column for column, _ in self.open}):
            place, cells = self.columns.index(column), len(self.grid.thresholds[column]) + 1
            at = [self.grid.value(column, cell) for cell in range(cells)][:: self.signs[column]]
            rows = self.every[~self.table.missing[:, place]]
            predictions = np.empty((len(rows), cells))
            for k, value in enumerate(at if len(rows) else []):
                values = self.table.values[rows]
                values[:, place] = value
                predictions[:, k] = self.predict(rows, values)
                bar.update()
            drop, first = _drop(predictions, self.tolerance)
            if drop.max(initial=0.0) > worst[0]:
                row, k = divmod(int(np.argmax(drop)), cells)
                of_row = int(rows[row]), place, at[first[row, k]], at[int(k)]
                worst = float(drop[row, k]), *of_row
        if not worst[0]:
            return ()
        _, row, place, low, high = worst
        found = self._pair(row, self.table.values[row], place, low, high)
        if not found:
            raise Unreadable("its predictions of a row depend on the other rows of a call")
        return found

    def _pair(
        self, row: int, values: Array, place: int, low: float, high: float
    ) -> tuple[Any, ...]:
        """The rest of a `TreeProof` of a pair, if it falls where each is predicted alone."""
        ends = np.stack([values, values])
        ends[:, place] = low, high
        rows = np.array([row, row])
        alone = [float(self.predict(rows[:1], ends[k : k + 1])[0]) for k in (0, 1)]
        if _drop(np.array([alone]), self.tolerance)[0].max() <= 0.0:
            return ()
        pair = self.table.with_values(rows, ends)
        return pair, tuple(alone), row, self.table.names[place], (low, high)

    def any_moves(self) -> tuple[Any, ...] | str:
        """A fall anywhere in rows with the missing values and categories of the table; or why not.

        :returns: the rest of a `TreeProof`, () as a proof that there is none, or a reason.
        """
        if self.forest.codes is None:
            return "the categories of other rows are not known here"
        cells, grid, budget = self._cells(self.every, self.table.values), self.grid, _BOXES
        kinds = cells.copy()
        for column, cuts in grid.thresholds.items():
            kinds[:, grid.place[column]] = cells[:, grid.place[column]] > len(cuts)
        patterns, which = np.unique(kinds, axis=0, return_inverse=True)
        reason = ""
        possible = np.zeros((len(patterns), grid.size), dtype=bool)
        for (column, part), kind in zip(grid.parts.items(), patterns.T, strict=True):
            missing = np.arange(part.stop - part.start) == part.stop - part.start - 1
            is_level = np.arange(len(missing)) == kind[:, None]
            possible[:, part] = is_level if column in grid.levels else missing == kind[:, None]

        def visit(box: Mask, parts: list[tuple[Mask, Array]], rows: Mask) -> Mask | None:
            """A box that falls in every tree together; `rows` are those of `possible`."""
            nonlocal budget
            budget -= 1
            rows = rows[grid.some(rows & box)]
            inside = []
            for boxes, gain in parts:
                meets = grid.some(boxes & box)
                inside.append((boxes[meets], gain[meets]))
            bound = sum(float(gain.min()) for _, gain in inside)
            if bound >= self.limit or not len(rows) or budget < 0:
                return None
            spread = [float(np.ptp(gain)) for _, gain in inside]
            k = int(np.argmax(spread))
            if spread[k] == 0.0:
                return box
            boxes, gain = inside[k]
            for at in np.argsort(gain):
                chosen = [(boxes[at : at + 1], gain[at : at + 1])]
                found = visit(box & boxes[at], inside[:k] + chosen + inside[k + 1 :], rows)
                if found is not None or budget < 0:
                    return found
            return None

        for column, cell in self.open:
            part, start = grid.parts[column], np.ones(grid.size, dtype=bool)
            start[part.stop - 1] = False
            parts = [self._gains(tree, column, cell) for tree in self.trees[column, cell]]
            box = visit(start, parts, possible)
            if budget < 0:
                return f"the boxes of other rows are too many to open ({_BOXES})"
            if box is None:
                continue
            fits = grid.some(possible & box)[which.ravel()]
            own = (box[np.array(grid.starts) + cells] & fits[:, None]).sum(1)
            row = int(np.argmax(own))
            values = self.table.values[row].copy()
            for place, other in enumerate(self.columns):
                allowed = box[grid.parts[other]][:-1]
                if not allowed[min(cells[row, grid.place[other]], len(allowed) - 1)]:
                    values[place] = grid.value(other, int(np.argmax(allowed)))
            ends = [grid.value(column, cell + k) for k in (0, 1)][:: self.signs[column]]
            found = self._pair(row, values, self.columns.index(column), *ends)
            if found:
                return found
            reason = "the trees fall at another row, but not its prediction"
        return reason or ()

    def _gains(self, tree: Tree, column: int, cell: int) -> tuple[Mask, Array]:
        """Boxes that share no row, and the difference of the tree in the step from each."""
        boxes, values = self.grid.leaves(tree)
        part = self.grid.parts[column]
        low, high = boxes[:, part.start + cell], boxes[:, part.start + cell + 1]
        both = boxes[low][:, None] & boxes[high]
        both[..., part] = True
        gain = self.signs[column] * (values[high] - values[low][:, None])
        exists = self.grid.some(both)
        return both[exists], gain[exists]


def _drop(predictions: Array, tolerance: float) -> tuple[Array, npt.NDArray[np.int64]]:
    """Falls [n, k] below the largest prediction before, less the tolerance; and where that is."""
    top = np.maximum.accumulate(predictions, 1)
    size = np.maximum(1.0, np.maximum(np.abs(top), np.abs(predictions)))
    rises = np.diff(top, axis=1, prepend=-np.inf) > 0.0
    first = np.maximum.accumulate(np.where(rises, np.arange(predictions.shape[1]), 0), 1)
    return top - predictions - tolerance * size, first
