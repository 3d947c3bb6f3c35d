"""What rows are read from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor

#: Most rows of a block that is read from a table or from files.
BLOCK_ROWS = 1 << 14

#: Rows "x" [b, x_dim], "r" [b, r_dim] and "y" [b], each in float32 or float64; NaN where a value is
#: missing.
Block = dict[str, Tensor]


class Source(Protocol):
    """Rows in a fixed order, which can be read again and again.

    Attributes: `rows`, the number of rows, or None where it is known only when all were read;
    `shards`, the numbers of rows of the parts that can be read by themselves, or None where the
    rows can only be read from the first to the last; `identity`, plain data that tells this data
    from another.
    """

    rows: int | None
    shards: list[int] | None
    identity: dict[str, Any]

    def read(self, shard: int) -> Iterator[Block]:
        """The rows of a shard, in blocks; shard 0 has all rows where `shards` is None."""
        ...

    def place(self, row: int, column: str | int | None = None) -> str:
        """Where a row, or a value of it, is, in words; rows are counted from 0."""
        ...
