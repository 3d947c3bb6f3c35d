"""Cells between the values of splits, in each of which every tree is constant."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.audit.pairs import Array
from pyro_gcm.audit.trees import Forest, Mask, Split, Tree, splits_of


class Grid:
    """The cells of every column that trees split: one after the other, and that of missing values.

    A row is in a cell of each column. A box is a set of rows: a mask of cells, side by side. A
    split at the largest numbers parts missing values from all others, below `limit` in size.
    """

    def __init__(self, forest: Forest) -> None:
        tests = defaultdict[int, set[Any]](set)
        for split in (split for tree in forest.trees for split in splits_of(tree)):
            tests[split.column].add(split.test)
        for column, values in forest.derived.items():
            tests[column] |= values
        self.limit = min(1e300, float(np.finfo(forest.dtype).max))
        self.thresholds: dict[int, npt.NDArray[np.floating[Any]]] = {}
        self.levels: dict[int, int] = {}  # a category of another number has a cell of its own
        self.parts: dict[int, slice] = {}
        start = 0
        for column, found in sorted(tests.items()):
            if any(isinstance(test, frozenset) for test in found):
                self.levels[column] = 1 + max(max(test, default=-1) for test in found)
                size = self.levels[column] + 2
            else:
                inside = [test for test in found if abs(test) < self.limit]
                self.thresholds[column] = np.array(sorted(inside), forest.dtype)
                size = len(inside) + 2
            self.parts[column] = slice(start, start + size)
            start += size
        self.size, self.starts = start, [part.start for part in self.parts.values()]
        self.place = {column: place for place, column in enumerate(self.parts)}

    def cells(self, numbers: dict[int, Array], codes: dict[int, Any]) -> npt.NDArray[np.int64]:
        """The cells of rows, [n, columns], from the start of each part."""
        found = []
        for column, part in self.parts.items():
            last = part.stop - part.start - 1
            if column in self.levels:
                code = np.minimum(codes[column], self.levels[column])
                found.append(np.where(code < 0, last, code))
            else:
                cuts = self.thresholds[column]
                value = numbers[column].astype(cuts.dtype)
                found.append(np.where(np.isnan(value), last, np.searchsorted(cuts, value)))
        return np.stack(found, 1)

    def value(self, column: int, cell: int) -> float:
        """A number in a cell: the largest one, or the least one of the last cell."""
        cuts = self.thresholds[column]
        return float(cuts[cell] if cell < len(cuts) else np.nextafter(cuts[-1], np.inf))

    def left(self, split: Split) -> Mask:
        """The cells of a split's column that go left."""
        part = self.parts[split.column]
        goes = np.zeros(part.stop - part.start, dtype=bool)
        if isinstance(split.test, frozenset):
            goes[[*split.test]] = True
        else:
            cuts = self.thresholds[split.column]
            below = np.searchsorted(cuts, np.asarray(split.test, cuts.dtype), "right")
            goes[: len(goes) - 1 if split.test >= self.limit else below] = True
        goes[-1] = split.missing_left
        return goes

    def leaves(self, tree: Tree) -> tuple[Mask, Array]:
        """The boxes [L, size] and values [L] of the leaves that a row can reach."""
        boxes, values = [], []
        stack = [(tree, np.ones(self.size, dtype=bool))]
        while stack:
            node, box = stack.pop()
            if not isinstance(node, Split):
                boxes.append(box)
                values.append(node)
                continue
            part, goes = self.parts[node.column], self.left(node)
            for child, side in ((node.left, goes), (node.right, ~goes)):
                inside = box.copy()
                inside[part] &= side
                if inside[part].any():
                    stack.append((child, inside))
        return np.array(boxes), np.array(values)

    def some(self, boxes: Mask) -> Mask:
        """Which of boxes [..., size] have a row."""
        return np.asarray(np.logical_or.reduceat(boxes, self.starts, axis=-1).all(-1))

    def sums(self, forest: Forest, cells: npt.NDArray[np.int64]) -> Array:
        """The sums of the trees, [n]."""
        total = np.zeros(len(cells))

        def add(node: Tree, rows: npt.NDArray[np.int64]) -> None:
            if not isinstance(node, Split):
                total[rows] += node
            elif len(rows):
                goes = self.left(node)[cells[rows, self.place[node.column]]]
                add(node.left, rows[goes])
                add(node.right, rows[~goes])

        for tree in forest.trees:
            add(tree, np.arange(len(cells)))
        return total
