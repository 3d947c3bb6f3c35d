"""Rows in memory of their own, which is filled block by block."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pyro_gcm.streams.source import Block


class Rows:
    """Room for rows like those of a block.

    Memory that is not filled yet takes no room in practice.

    :param like: has the widths and the types.
    :param capacity: rows for which there is room; more are made room for by copying.
    """

    def __init__(self, like: Block, capacity: int) -> None:
        self._held = {n: c.new_empty((capacity, *c.shape[1:])) for n, c in like.items()}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, block: Block) -> None:
        """Copy the rows of a block to the end."""
        last = self._rows + len(block["y"])
        for name, column in block.items():
            held = self._held[name]
            if last > len(held):
                self._held[name] = held.new_empty((max(last, 2 * len(held)), *held.shape[1:]))
                self._held[name][: self._rows] = held[: self._rows]
            self._held[name][self._rows : last] = column
        self._rows = last

    def replace(self, at: Tensor, block: Block) -> None:
        """Copy the rows of a block over those in the places `at`."""
        for name, column in block.items():
            self._held[name][at] = column

    def clear(self) -> None:
        """Forget all rows; their room is used again."""
        self._rows = 0

    def block(self) -> Block:
        """The rows, not copies."""
        return {name: held[: self._rows] for name, held in self._held.items()}

    def moved(self, order: Tensor) -> Block:
        """The rows in another order. They are given up, one column set after the other."""
        return {name: self._held.pop(name)[order] for name in tuple(self._held)}


def between(block: Block, first: int, last: int) -> Block:
    """The rows first..last - 1 of a block, not copies."""
    return {name: column[first:last] for name, column in block.items()}


def selected(block: Block, index: Tensor) -> Block:
    """Copies of the rows `index` of a block, in any order."""
    return {name: column.index_select(0, index) for name, column in block.items()}


def gathered(blocks: Iterator[Block], least: int) -> Iterator[Block]:
    """The same rows in blocks of `least` rows or more, but for the last; each until the next."""
    held: Rows | None = None
    for block in blocks:
        if len(block["y"]) >= least and not held:
            yield block
            continue
        held = Rows(block, least) if held is None else held
        held.append(block)
        if len(held) >= least:
            yield held.block()
            held.clear()
    if held:
        yield held.block()


def joined(blocks: list[Block]) -> Block:
    """The rows of one block after the other."""
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}
