"""Data frames and Parquet files as sources of rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm._utils.archive import undamaged
from pyro_gcm._utils.columns import numbers_of
from pyro_gcm._utils.validation import kind, place, shown
from pyro_gcm.streams.blocks import BLOCK_ROWS, Block

#: Bytes of each column that are read from a file at once.
_READ_BYTES = 1 << 16
#: The dtype that holds the numbers of a type, None for a type without numbers, and how messages
#: name the type.
_Kind = tuple[str | None, str]


class Columns:
    """Names of the columns that are x, r and y, and the types in which they are read.

    x, and likewise r, is float64 if one of its columns is, and float32 otherwise.

    :param x: names of columns, at least one.
    :param r: names of columns, at least one.
    :param y: name of a column.
    :param kinds: of each column of the data.
    :raises TypeError: for names that are no text, and for columns that have no numbers.
    :raises ValueError: for names that are not among the columns, or come twice.
    """

    def __init__(
        self, x: Sequence[str], r: Sequence[str], y: str, kinds: Mapping[str, _Kind]
    ) -> None:
        if not isinstance(y, str):
            raise TypeError(f"y must be the name of a column of data, got {shown(y)}")
        self.names = {"x": _names("x", x), "r": _names("r", r), "y": [y]}
        self.every = [name for names in self.names.values() for name in names]
        self.dtypes = dict.fromkeys(self.names, "float32")
        seen: dict[str, str] = {}
        for argument, name in ((key, name) for key, names in self.names.items() for name in names):
            if name not in kinds:
                raise ValueError(
                    f"{argument} must name columns of data, got {name!r}: its columns are "
                    f"{list(kinds)}"
                )
            if name in seen:
                raise ValueError(
                    f"each column must be named once, got {name!r} in {seen[name]} and in "
                    f"{argument}"
                )
            seen[name] = argument
            dtype, told = kinds[name]
            if dtype is None:
                raise TypeError(
                    f"{argument} must name columns with numbers, got {name!r} with type {told}"
                )
            self.dtypes[argument] = np.promote_types(self.dtypes[argument], dtype).name
        self.identity = {**self.names, "dtypes": list(self.dtypes.values())}

    def block(self, rows: int, values: Mapping[str, npt.ArrayLike]) -> Block:
        """A block of rows, in memory of its own.

        :param values: of each column, [rows] or a single number.
        """
        found = {}
        for argument, names in self.names.items():
            array = np.empty((rows, len(names)), self.dtypes[argument])
            for j, name in enumerate(names):
                array[:, j] = values[name]
            found[argument] = torch.from_numpy(array)
        return {**found, "y": found["y"][:, 0]}


def _names(argument: str, names: Any) -> list[str]:
    wanted = f"{argument} must be a sequence of names of columns of data"
    if isinstance(names, str):
        raise TypeError(f"{wanted}, got {names!r}: pass [{names!r}]")
    if not isinstance(names, Iterable):
        raise TypeError(f"{wanted}, got {shown(names)}")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{wanted}, got {shown(name)} of type {kind(name)} in it")
    if not found:
        raise ValueError(f"{wanted}, got none")
    return found


class FrameSource:
    """The rows of a `pyarrow.Table` or of a data frame of pandas, polars or another library.

    :param frame: the table, as a DataFrame of narwhals.
    :param x: names of columns.
    :param r: names of columns.
    :param y: name of a column.
    :raises TypeError: for columns without numbers.
    :raises ValueError: for unknown names and for a table without rows.
    """

    def __init__(self, frame: Any, x: Sequence[str], r: Sequence[str], y: str) -> None:
        kinds = {name: (_dtype_in_frame(of), str(of)) for name, of in frame.schema.items()}
        self._columns, self._frame = Columns(x, r, y, kinds), frame
        self.rows: int | None = _some(len(frame))
        starts = range(0, len(frame), BLOCK_ROWS)
        self.shards: list[int] | None = [min(BLOCK_ROWS, len(frame) - first) for first in starts]
        self.identity = {"kind": "table", **self._columns.identity, "rows": self.rows}

    def read(self, shard: int) -> Iterator[Block]:
        """The rows of a shard, as one block."""
        rows = self._frame[shard * BLOCK_ROWS : (shard + 1) * BLOCK_ROWS]
        values = {name: numbers_of(rows[name]) for name in self._columns.every}
        yield self._columns.block(len(rows), values)

    def place(self, row: int, column: str | int | None = None) -> str:
        """Where a row, or a value of it, is, in words."""
        return f"{place(row, column)} of data"


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

        try:
            files = list(dataset.get_fragments())
        except ValueError as error:
            raise ValueError(f"data must be a dataset without a filter: {error}") from error
        kinds = {of.name: (_dtype_in_file(of.type), str(of.type)) for of in dataset.schema}
        groups: list[Any] = []
        for file in files:
            if not isinstance(file, ParquetFileFragment):
                raise TypeError(
                    "data must be a dataset of Parquet files, a table or batches, got a dataset "
                    f"with a {type(file).__name__}: write it with pyarrow.dataset.write_dataset"
                )
            with _told_of(file):
                groups += [group for group in file.split_by_row_group() if group.row_groups]
            for field in file.physical_schema:  # which the first file, and so data, may lack
                dtype = _dtype_in_file(field.type)
                if dtype is None or field.name not in kinds:
                    kinds[field.name] = dtype, f"{field.type} in {file.path}"
        self._columns = Columns(x, r, y, kinds)
        self._groups = [group for group in groups if group.row_groups[0].num_rows]
        self.shards: list[int] | None = [group.row_groups[0].num_rows for group in self._groups]
        self._starts = np.cumsum([0, *self.shards])
        self.rows: int | None = _some(int(self._starts[-1]))
        described = [
            (PurePosixPath(group.path).name, info.id, info.num_rows, info.total_byte_size)
            for group in groups
            for info in group.row_groups
        ]
        self.identity = {
            "kind": "parquet",
            **self._columns.identity,
            "rows": self.rows,
            "files": len(files),
            "row_groups": zlib.crc32(repr(described).encode()),
        }

    def read(self, shard: int) -> Iterator[Block]:
        """The rows of a row group, in blocks.

        :raises DamagedFile: if the file is cut, or is another one than when it was opened.
        """
        from pyarrow.parquet import ParquetFile

        group, columns = self._groups[shard], self._columns
        given = _given(group)
        names = [n for n in columns.every if n in group.physical_schema.names and n not in given]
        absent = {n: np.nan if given.get(n) is None else float(given[n]) for n in columns.every}
        # A scan of the fragment would hold the whole row group, decoded and as it was read.
        options = {"metadata": group.metadata, "buffer_size": _READ_BYTES, "pre_buffer": False}
        with _told_of(group), group.open() as opened, ParquetFile(opened, **options) as file:
            numbers = [info.id for info in group.row_groups]
            for batch in file.iter_batches(
                BLOCK_ROWS, row_groups=numbers, columns=names, use_threads=False
            ):
                found = {name: _numbers_in_file(batch.column(name)) for name in names}
                yield columns.block(len(batch), {**absent, **found})

    def place(self, row: int, column: str | int | None = None) -> str:
        """Where a row, or a value of it, is in its file, in words."""
        group = self._groups[int(np.searchsorted(self._starts, row, "right")) - 1]
        first = [each.path for each in self._groups].index(group.path)
        found = f"{place(row - int(self._starts[first]), column)} of {group.path}"
        if column is None or column in group.physical_schema.names or column in _given(group):
            return found
        return f"{found}, which has no such column"


def _some(rows: int) -> int:
    if not rows:
        raise ValueError("data has no rows, at least one is needed")
    return rows


def _told_of(fragment: Any) -> AbstractContextManager[None]:
    """Inside, a file that is no Parquet file, or no longer the one it was, is named."""
    return undamaged(f"{fragment.path} cannot be read:", FileNotFoundError, PermissionError)


def _given(group: Any) -> dict[str, Any]:
    """The values of a file that the names of its folders state."""
    from pyarrow.dataset import get_partition_keys

    found: dict[str, Any] = get_partition_keys(group.partition_expression)
    return found


def _dtype_in_frame(of: Any) -> str | None:
    """The dtype that holds the numbers of a type of narwhals, or None if it has no numbers."""
    import narwhals as nw

    if str(of) in ("Float16", "Float32"):
        return "float32"
    return "float64" if of == nw.Boolean or of.is_numeric() else None


def _dtype_in_file(of: Any) -> str | None:
    """The dtype that holds the numbers of an Arrow type, or None if it has no numbers."""
    from pyarrow import types

    if types.is_float16(of) or types.is_float32(of):
        return "float32"
    others = (types.is_float64, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return "float64" if any(is_one(of) for is_one in others) else None


def _numbers_in_file(array: Any) -> npt.NDArray[np.floating[Any]]:
    """The values [n] of an Arrow array of numbers, NaN where one is null."""
    import pyarrow as pa

    if not pa.types.is_floating(array.type):
        array = array.cast(pa.float64(), safe=False)
    values: npt.NDArray[np.floating[Any]] = array.to_numpy(zero_copy_only=False)
    return values
