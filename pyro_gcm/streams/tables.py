"""Tables in memory, or mapped into it, as sources of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pyro_gcm._utils.columns import numbers_of
from pyro_gcm._utils.validation import place
from pyro_gcm.streams.columns import Columns
from pyro_gcm.streams.source import BLOCK_ROWS, Block

_SHARD_ROWS = 1 << 16


class TableSource:
    """The rows of a `pyarrow.Table` or of a data frame of pandas, polars or another library.

    :param frame: the table, as a DataFrame of narwhals.
    :param x: names of columns.
    :param r: names of columns.
    :param y: name of a column.
    :raises TypeError: for columns without numbers.
    :raises ValueError: for unknown names and for a table without rows.
    """

    def __init__(self, frame: Any, x: Sequence[str], r: Sequence[str], y: str) -> None:
        self._columns = Columns(x, r, y, frame.schema, _dtype_of)
        self._frame = frame
        self.rows: int | None = len(frame)
        if not self.rows:
            raise ValueError("data has no rows, at least one is needed")
        starts = range(0, self.rows, _SHARD_ROWS)
        self.shards: list[int] | None = [min(_SHARD_ROWS, self.rows - first) for first in starts]
        self.identity = {"kind": "table", **self._columns.identity, "rows": self.rows}

    def read(self, shard: int) -> Iterator[Block]:
        """The rows of a shard, in blocks."""
        part = self._frame[shard * _SHARD_ROWS : (shard + 1) * _SHARD_ROWS]
        for first in range(0, len(part), BLOCK_ROWS):
            rows = part[first : first + BLOCK_ROWS]
            values = {name: numbers_of(rows[name]) for _, name in self._columns.each()}
            yield self._columns.block(len(rows), values)

    def place(self, row: int, column: str | int | None = None) -> str:
        """Where a row, or a value of it, is, in words."""
        return f"{place(row, column)} of data"


def _dtype_of(kind: Any) -> torch.dtype | None:
    """The dtype that holds the numbers of a type of narwhals, or None if it has no numbers."""
    import narwhals as nw

    if str(kind) in ("Float16", "Float32"):
        return torch.float32
    return torch.float64 if kind == nw.Boolean or kind.is_numeric() else None
