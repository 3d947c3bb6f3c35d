"""Mini-batches of rows in a given order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

#: Bytes that are gathered at once: many small batches, which are then views, or one large one.
GATHERED = 1 << 22

Columns = list[Tensor]


def selected(columns: Columns, index: Tensor) -> Columns:
    """The rows `index`, in any order: the columns themselves, not copies, if these are all rows."""
    return [column if len(index) == len(column) else column[index] for column in columns]


def batches(
    columns: Columns, index: Tensor, size: int, prepare: Callable[[Columns], Columns]
) -> Iterator[Columns]:
    """The rows `index` of all columns, `size` at a time.

    Rows are gathered and prepared for many batches at once, and never all of them: memory does not
    grow with their number.

    :param columns: tensors with one row per datum.
    :param prepare: what is done to the rows of every column, for each row by itself.
    """
    row_bytes = sum(c[:1].numel() * c.element_size() for c in columns)
    for part in index.split(size * max(1, GATHERED // (row_bytes * size))):
        rows = prepare([column[part] for column in columns])
        yield from map(list, zip(*(column.split(size) for column in rows), strict=True))
