"""The rows of a run, in mini-batches."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

#: Rows of which bytes are read at once.
_ROWS = 1 << 16
#: Bytes that are gathered at once: many small batches, which are then views, or one large one.
GATHERED = 1 << 22

Columns = list[Tensor]


class Batches(Protocol):
    """Rows that a run visits once an epoch."""

    rows: int
    steps: int  # batches of an epoch

    def epoch(self, number: int, first: int = 0) -> Iterator[Columns]:
        """The batches of epoch `number`, counted from 0, from batch `first` on."""

    def origin(self, number: int, batch: int) -> list[int]:
        """The rows of a batch, as the user numbers them; of the epoch that was asked for last."""

    def state(self, begun: bool) -> Any:
        """The state at the start of the epoch that has begun, or else of the next one."""

    def load(self, state: Any) -> None:
        """Start from a state again."""


class RowsInMemory:
    """Some rows of tensors, in a new random order every epoch or always in the same one.

    Rows are gathered and prepared for many batches at once, and never all of them: memory does not
    grow with their number.

    :param columns: tensors with one row per datum.
    :param index: of the rows, on the device of the columns.
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
        self.columns, self.index, self.size = columns, index, size
        self.order, self.prepare = order, prepare
        self.rows, self.steps = len(index), math.ceil(len(index) / size)
        self._before, self._visited = None if order is None else order.get_state(), index

    def epoch(self, number: int, first: int = 0) -> Iterator[Columns]:
        """Batches of the next epoch, whatever its number."""
        if self.order is not None:
            self._before = self.order.get_state()
            shuffled = torch.randperm(self.rows, generator=self.order)
            self._visited = self.index[shuffled.to(self.index.device)]
        row_bytes = sum(c[:1].numel() * c.element_size() for c in self.columns)
        gathered = self.size * max(1, GATHERED // (row_bytes * self.size))
        left = self._visited[first * self.size :]
        # No generator, whose frame every step would enter.
        return chain.from_iterable(map(self._batches, left.split(gathered) if len(left) else ()))

    def _batches(self, part: Tensor) -> Iterator[Columns]:
        rows = self.prepare([column[part] for column in self.columns])
        return map(list, zip(*(column.split(self.size) for column in rows), strict=True))

    def origin(self, number: int, batch: int) -> list[int]:
        """The state at the start of an epoch."""
        return self._visited[batch * self.size : (batch + 1) * self.size].tolist()

    def state(self, begun: bool) -> Tensor | None:
        """The state between two batches."""
        return self._before if begun or self.order is None else self.order.get_state()

    def load(self, state: Tensor) -> None:
        """Go on from a saved state."""
        if self.order is not None:
            self.order.set_state(state.cpu())


class TrainingRows(NamedTuple):
    """The data of a run.

    :param training: rows of which steps are made.
    :param validation: rows that are held out, always in the same order; maybe none.
    :param identity: tells these data from others.
    """

    training: Batches
    validation: Batches
    identity: dict[str, Any]


def rows_in_memory(
    columns: Columns,
    parts: tuple[Tensor, Tensor],
    size: int,
    order: torch.Generator,
    device: torch.device,
    *,
    is_compared: bool = False,
    prepare: Callable[[Columns], Columns] = list,
) -> TrainingRows:
    """Tensors as the data of a run.

    :param columns: tensors with one row per datum.
    :param parts: row indices of the training part and of the validation part.
    :param size: rows of a batch.
    :param order: generator of the order of the rows in every epoch.
    :param is_compared: whether a file or another process is to have the same rows.
    :param prepare: as in `RowsInMemory`.
    """
    columns = [column.to(device) for column in columns]
    training, validation = (part.to(device) for part in parts)
    return TrainingRows(
        RowsInMemory(columns, training, size, order, prepare),
        RowsInMemory(columns, validation, size, None, prepare),
        {"checksum of the rows": checksum(columns) if is_compared else None},
    )


def selected(columns: Columns, index: Tensor) -> Columns:
    """The rows `index`, in any order: the columns themselves, not copies, if these are all rows."""
    return [column if len(index) == len(column) else column[index] for column in columns]


def checksum(columns: list[Tensor]) -> int:
    """A number that tells the data of one run from those of another."""
    total = 0
    for column in columns:
        for rows in column.split(_ROWS):
            total = zlib.crc32(rows.cpu().contiguous().view(torch.uint8).numpy(), total)
    return total
