"""A random sample of rows that are seen once, which does not depend on how they come."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm.streams.keys import keys
from pyro_gcm.streams.rows import Rows, between, joined, selected
from pyro_gcm.streams.source import Block


class Sample:
    """The `size` rows with the smallest keys; memory for them and an eighth of them is used.

    :param size: of the sample.
    :param seed: of the keys.
    :param like: a block with the widths and types of the rows.
    """

    def __init__(self, size: int, seed: int, like: Block) -> None:
        self._size, self._seed = size, seed
        self._rows = Rows(like, size)
        self._keys = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int64)
        self._waiting: list[tuple[Block, npt.NDArray[np.int64]]] = []

    def add(self, block: Block, numbers: npt.NDArray[np.int64]) -> None:
        """Consider rows.

        :param numbers: of the rows of the block, in the data; none may have been added before.
        """
        drawn = keys(self._seed, "sample", numbers)
        room = self._size - len(self._rows)
        if room:
            self._rows.append(between(block, 0, room))
            self._keys = np.concatenate([self._keys, drawn[:room]])
            self._numbers = np.concatenate([self._numbers, numbers[:room]])
        if room < len(numbers):
            small = room + np.flatnonzero(drawn[room:] < self._keys.max())
            self._waiting.append((selected(block, torch.from_numpy(small)), numbers[small]))
            if 8 * sum(len(waiting) for _, waiting in self._waiting) > self._size:
                self._merge()

    def rows(self) -> Block:
        """The sample, in the order of the data; call it once."""
        self._merge()
        order = np.argsort(self._numbers)
        if (np.diff(order) > 0).all():
            return self._rows.block()
        return self._rows.moved(torch.from_numpy(order))

    def _merge(self) -> None:
        """Replace rows by those that wait and have smaller keys."""
        if not self._waiting:
            return
        block = joined([block for block, _ in self._waiting])
        numbers = np.concatenate([waiting for _, waiting in self._waiting])
        self._waiting = []
        drawn = keys(self._seed, "sample", numbers)
        kept = np.zeros(self._size + len(drawn), bool)
        every = np.concatenate([self._keys, drawn])
        kept[np.argpartition(every, self._size - 1)[: self._size]] = True
        out, into = np.flatnonzero(~kept[: self._size]), np.flatnonzero(kept[self._size :])
        self._rows.replace(torch.from_numpy(out), selected(block, torch.from_numpy(into)))
        self._keys[out], self._numbers[out] = drawn[into], numbers[into]
