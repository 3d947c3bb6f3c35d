"""A dataset of Parquet files as a source of rows."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm._utils.archive import undamaged
from pyro_gcm._utils.validation import place
from pyro_gcm.streams.columns import Columns
from pyro_gcm.streams.source import BLOCK_ROWS, Block

#: Bytes of each column that are read from a file at once.
_READ_BYTES = 1 << 16


class ParquetSource:
    """The rows of a `pyarrow.dataset.Dataset`; its shards are the row groups of the files.

    A column that a file lacks has no values there, or the one that the names of folders give it.

    :param dataset: its files have the format Parquet.
    :param x: names of columns.
    :param r: names of columns.
    :param y: name of a column.
    :raises TypeError: for another format, and for columns without numbers.
    :raises ValueError: for unknown names, and for a dataset that has no rows or is filtered.
    """

    def __init__(self, dataset: Any, x: Sequence[str], r: Sequence[str], y: str) -> None:
        from pyarrow.dataset import ParquetFileFragment

        types = {field.name: field.type for field in dataset.schema}
        try:
            fragments = list(dataset.get_fragments())
        except ValueError as error:
            raise ValueError(f"data must be a dataset without a filter: {error}") from error
        for fragment in fragments:
            if not isinstance(fragment, ParquetFileFragment):
                raise TypeError(
                    "data must be a dataset of Parquet files, a table or batches, got a dataset "
                    f"with a {type(fragment).__name__}: write it with pyarrow.dataset.write_dataset"
                )
            with _told_of(fragment):
                fields = list(fragment.physical_schema)
            for field in fields:  # which the first file, and so data, may lack
                types.setdefault(field.name, field.type)
        self._columns = Columns(x, r, y, types, _dtype_of)
        self._groups: list[Any] = []
        counts: list[int] = []
        described = 0
        for fragment in fragments:
            self._check_types(fragment)
            with _told_of(fragment):
                groups = [group for group in fragment.split_by_row_group() if group.row_groups]
            name = PurePosixPath(fragment.path).name
            for group in groups:
                info = group.row_groups[0]
                described = zlib.crc32(
                    repr((name, info.id, info.num_rows, info.total_byte_size)).encode(), described
                )
                if info.num_rows:
                    self._groups.append(group)
                    counts.append(info.num_rows)
        self.shards: list[int] | None = counts
        self.rows: int | None = sum(counts)
        if not self.rows:
            raise ValueError("data has no rows, at least one is needed")
        self.identity = {
            "kind": "parquet",
            **self._columns.identity,
            "rows": self.rows,
            "files": len(fragments),
            "row_groups": described,
        }

    def read(self, shard: int) -> Iterator[Block]:
        """The rows of a row group, in blocks.

        :raises DamagedFile: if the file is cut, or is another one than when it was opened.
        """
        from pyarrow.parquet import ParquetFile

        group = self._groups[shard]
        given = _given(group)
        every = [name for _, name in self._columns.each()]
        names = [n for n in every if n in group.physical_schema.names and n not in given]
        absent = {n: np.nan if given.get(n) is None else float(given[n]) for n in every}
        # A scan of the dataset would hold the whole row group, decoded and as it was read.
        with (
            _told_of(group),
            group.filesystem.open_input_file(group.path) as opened,
            ParquetFile(
                opened, metadata=group.metadata, buffer_size=_READ_BYTES, pre_buffer=False
            ) as file,
        ):
            number = group.row_groups[0].id
            for batch in file.iter_batches(
                BLOCK_ROWS, row_groups=[number], columns=names, use_threads=False
            ):
                found = {name: _numbers(batch.column(name)) for name in names}
                yield self._columns.block(len(batch), {**absent, **found})

    def place(self, row: int, column: str | int | None = None) -> str:
        """Where a row, or a value of it, is in its file, in words."""
        starts = [0, *accumulate(group.row_groups[0].num_rows for group in self._groups)]
        group = self._groups[bisect_right(starts, row) - 1]
        first = next(s for s, g in zip(starts, self._groups, strict=False) if g.path == group.path)
        found = f"{place(row - first, column)} of {group.path}"
        if column is None or column in group.physical_schema.names or column in _given(group):
            return found
        return f"{found}, which has no such column"

    def _check_types(self, fragment: Any) -> None:
        for argument, name in self._columns.each():
            at = fragment.physical_schema.get_field_index(name)
            if at >= 0 and _dtype_of(fragment.physical_schema.field(at).type) is None:
                raise TypeError(
                    f"{argument} must name columns with numbers, got {name!r} with type "
                    f"{fragment.physical_schema.field(at).type} in {fragment.path}"
                )


def _told_of(fragment: Any) -> AbstractContextManager[None]:
    """Inside, a file that is no Parquet file, or no longer the one it was, is named."""
    return undamaged(f"{fragment.path} cannot be read:", FileNotFoundError, PermissionError)


def _given(group: Any) -> dict[str, Any]:
    """What the names of folders say of a file."""
    from pyarrow.dataset import get_partition_keys

    found: dict[str, Any] = get_partition_keys(group.partition_expression)
    return found


def _dtype_of(kind: Any) -> torch.dtype | None:
    """The dtype that holds the numbers of an Arrow type, or None if it has no numbers."""
    from pyarrow import types

    if types.is_float16(kind) or types.is_float32(kind):
        return torch.float32
    others = (types.is_float64, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return torch.float64 if any(is_one(kind) for is_one in others) else None


def _numbers(array: Any) -> npt.NDArray[np.floating[Any]]:
    """The values [n] of an Arrow array of numbers, NaN where one is null."""
    import pyarrow as pa

    if not pa.types.is_floating(array.type):
        array = array.cast(pa.float64(), safe=False)
    values: npt.NDArray[np.floating[Any]] = array.to_numpy(zero_copy_only=False)
    return values
