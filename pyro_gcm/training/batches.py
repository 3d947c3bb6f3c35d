"""The rows of a training, in mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

#: Bytes that are gathered at once: many small batches, which are then views, or one large one.
GATHERED = 1 << 22

Columns = list[Tensor]


class Batches(Protocol):
    """Rows that a training visits once an epoch."""

    rows: int
    steps: int  # batches of an epoch

    def epoch(self, number: int) -> Iterator[Columns]:
        """The batches of epoch `number`, counted from 0."""

    def origin(self, batch: int) -> list[int]:
        """The rows of the batch that an epoch gave last, number `batch`, as the user counts."""

    def state(self) -> Any:
        """The state between two epochs."""

    def load(self, state: Any) -> None:
        """Start from a state again."""


class RowsInMemory:
    """Some rows of tensors, in a new random order every epoch or always in the same one.

    Rows are gathered and prepared for many batches at once, and never all of them: memory does not
    grow with their number.

    :param columns: tensors with one row per datum.
    :param index: of the rows.
    :param size: rows of a batch; the last one of an epoch may have fewer.
    :param order: generator of the order; None for that of `index`.
    :param prepare: what is done to the rows of every column, for each row by itself.
    """

    def __init__(
        self,
        columns: Columns,
        index: Tensor,
        size: int,
        order: torch.Generator | None = None,
        prepare: Callable[[Columns], Columns] = list,
    ) -> None:
        self.columns, self.index = columns, index.to(columns[0].device)
        self.size, self.order, self.prepare = size, order, prepare
        self.rows, self.steps = len(index), math.ceil(len(index) / size)
        self._visited = self.index

    def epoch(self, number: int) -> Iterator[Columns]:
        """Batches of the next epoch, whatever its number."""
        if self.order is not None:
            shuffled = torch.randperm(self.rows, generator=self.order)
            self._visited = self.index[shuffled.to(self.index.device)]
        row_bytes = sum(c[:1].numel() * c.element_size() for c in self.columns)
        gathered = self.size * max(1, GATHERED // (row_bytes * self.size))
        parts = self._visited.split(gathered) if self.rows else ()
        # No generator, whose frame every step would enter.
        return chain.from_iterable(map(self._batches, parts))

    def _batches(self, part: Tensor) -> Iterator[Columns]:
        rows = self.prepare([column[part] for column in self.columns])
        return map(list, zip(*(column.split(self.size) for column in rows), strict=True))

    def origin(self, batch: int) -> list[int]:
        """The rows of a batch."""
        return self._visited[batch * self.size : (batch + 1) * self.size].tolist()

    def state(self) -> Tensor | None:
        """The state between two epochs."""
        return None if self.order is None else self.order.get_state()

    def load(self, state: Tensor) -> None:
        """Go on from a saved state."""
        if self.order is not None:
            self.order.set_state(state.cpu())


def selected(columns: Columns, index: Tensor) -> Columns:
    """The rows `index`, in any order: the columns themselves, not copies, if these are all rows."""
    return [column if len(index) == len(column) else column[index] for column in columns]
