"""Blocks of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

#: Rows "x" [b, x_dim], "r" [b, r_dim] and "y" [b], each in float32 or float64, and maybe their
#: numbers, "row" [b].
Block = dict[str, Tensor]


def between(block: Block, first: int, last: int) -> Block:
    """The rows first..last - 1 of a block, not copies."""
    return {name: column[first:last] for name, column in block.items()}


def selected(block: Block, index: Tensor | npt.NDArray[np.int64]) -> Block:
    """Copies of the rows `index` of a block, in any order."""
    at = torch.as_tensor(index)
    return {name: column.index_select(0, at) for name, column in block.items()}


class Rows:
    """Rows in memory of their own, which is filled block by block.

    A list of blocks would be simpler, and would leave memory in freed pieces (measured: 20 to 30 MB
    beside 160). Memory that is not filled yet takes no room in practice.

    :param capacity: rows for which there is room at first.
    """

    def __init__(self, capacity: int) -> None:
        self._held: Block = {}
        self._capacity, self._count = capacity, 0

    def __len__(self) -> int:
        return self._count

    def append(self, block: Block) -> None:
        """Copy the rows of a block to the end."""
        first, last = self._count, self._count + len(block["y"])
        if last > self._capacity:
            self._capacity = max(last, 2 * self._capacity)
        for name, column in block.items():
            held = self._held.get(name, column[:0])
            if len(held) < self._capacity:
                self._held[name] = column.new_empty((self._capacity, *column.shape[1:]))
                self._held[name][:first] = held[:first]
            self._held[name][first:last] = column
        self._count = last

    def clear(self) -> None:
        """Forget all rows; their room is used again."""
        self._count = 0

    def keep(self, index: npt.NDArray[np.int64]) -> None:
        """Forget all rows but those in these places."""
        self._count = len(index)
        at = torch.from_numpy(index)
        for held in self._held.values():
            held[: len(at)] = held[at]

    def block(self) -> Block:
        """The rows, not copies."""
        return between(self._held, 0, self._count)
