"""Where rows are read from: Parquet files, or batches that an iterable gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler

from pyro_gcm._utils.files import undamaged
from pyro_gcm._utils.validation import as_tensor, place, positive_int, same_rows, shown

#: Rows "x" [b, x_dim], "r" [b, r_dim] and "y" [b], each in float32 or float64.
Block = dict[str, torch.Tensor]
#: Most rows of a block that is read from files.
BLOCK_ROWS = 1 << 14
_CPU = torch.device("cpu")
_SHUFFLE = RandomSampler, WeightedRandomSampler
_NO_BATCHES = str, bytes, PathLike, Mapping, torch.Tensor, np.ndarray


def between(block: Block, first: int, last: int) -> Block:
    """The rows first..last - 1 of a block, not copies."""
    return {name: column[first:last] for name, column in block.items()}


class ParquetRows:
    """The rows of Parquet files, for `pyro_gcm.fit` in the place of x; it reads them every epoch.

    The order of their row groups changes in every epoch, and a group is read as a whole.

    :param dataset: a `pyarrow.dataset.Dataset` of the files.
    :param x: names of columns with numbers; `r`: likewise; `y`: name of one.
    :param memory: bytes that rows may take: half of it the window in which they are shuffled, a
        quarter the rows held out for validation, and an eighth a sample for quantiles.
    :raises TypeError: for files of another format, and for columns without numbers.
    :raises KeyError: for names that are not among the columns.
    :raises ValueError: for a dataset without rows.
    """

    def __init__(
        self, dataset: Any, x: Sequence[str], r: Sequence[str], y: str, *, memory: int = 1 << 28
    ) -> None:
        import pyarrow as pa

        self.memory = positive_int("memory", memory, minimum=1 << 20)
        self.names = {"x": list(x), "r": list(r), "y": [y]}
        self._types = {name: _numbers(dataset.schema, of) for name, of in self.names.items()}
        self._schema = dataset.schema
        for at, field in enumerate(dataset.schema):
            if str(field.type) == "bool":  # as which the numbers of other files would be read
                self._schema = self._schema.set(at, field.with_type(pa.uint8()))
        self._groups: list[Any] = []
        for file in dataset.get_fragments():
            if not hasattr(file, "split_by_row_group"):
                raise TypeError(f"dataset must be one of Parquet files, got {type(file).__name__}")
            with _readable(file):
                self._groups += [g for g in file.split_by_row_group() if g.row_groups[0].num_rows]
        self.shards = [group.row_groups[0].num_rows for group in self._groups]
        self.rows: int | None = sum(self.shards)
        if not self.rows:
            raise ValueError("dataset has no rows, at least one is needed")

    def read(self, shard: int) -> Iterator[Block]:
        """The rows of a row group, in blocks."""
        group = self._groups[shard]
        every = [name for names in self.names.values() for name in names]
        alone = {"use_threads": False, "batch_readahead": 0, "fragment_readahead": 0}
        with _readable(group):
            for batch in group.to_batches(
                schema=self._schema, columns=every, batch_size=BLOCK_ROWS, **alone
            ):
                block = {}
                for argument, names in self.names.items():
                    values = np.empty((len(batch), len(names)), self._types[argument])
                    for j, name in enumerate(names):
                        column = batch.column(name).cast("float64", safe=False)
                        values[:, j] = column.to_numpy(zero_copy_only=False)
                    block[argument] = torch.from_numpy(values)
                yield {**block, "y": block["y"][:, 0]}

    def place(self, row: int, argument: str, column: int | None) -> str:
        """Where a row, or a value of it, is in its file, in words."""
        name = self.names[argument][column or 0] if argument else None
        starts = np.cumsum([0, *self.shards])
        group = self._groups[int(np.searchsorted(starts, row, "right")) - 1]
        first = [each.path for each in self._groups].index(group.path)
        found = f"{place(row - int(starts[first]), name)} of {group.path}"
        there = name is None or name in group.physical_schema.names
        return found if there else f"{found}, which has no such column"


class BatchRows:
    """The rows of batches, for `pyro_gcm.fit` in the place of x; it iterates anew in every epoch.

    :param data: a `torch.utils.data.DataLoader`, or another iterable, of (x, r, y), as tuples or
        dictionaries, which gives the same rows in the same order at each pass; `fit` shuffles.
    :param memory: as for `ParquetRows`.
    :raises TypeError: if it cannot be iterated.
    :raises ValueError: if it can be iterated only once, or shuffles.
    """

    rows: int | None = None
    shards: list[int] | None = None
    names: Mapping[str, Any] = {"x": None, "r": None}

    def __init__(self, data: Iterable[Any], *, memory: int = 1 << 28) -> None:
        self.memory, self._data = positive_int("memory", memory, minimum=1 << 20), data
        if isinstance(data, _NO_BATCHES) or not isinstance(data, Iterable):
            raise TypeError(
                "x must come with r and y, or be ParquetRows, a DataLoader or other batches of (x, "
                f"r, y), got {shown(data)}"
            )
        if iter(data) is data:
            raise ValueError(
                f"data must be iterable more than once, got {type(data).__name__}: pass a "
                "DataLoader, a list, or an object whose __iter__ starts anew"
            )
        if isinstance(data, DataLoader) and isinstance(data.sampler, _SHUFFLE):
            raise ValueError(
                "data must be a DataLoader with shuffle=False, since its rows have to come in the "
                "same order at each pass; `fit` shuffles by itself"
            )

    def read(self, shard: int) -> Iterator[Block]:
        """All rows, in the batches of the data."""
        with torch.random.fork_rng(devices=[]):  # from whose generator a DataLoader takes a seed
            batches = iter(self._data)
        for number, item in enumerate(batches):
            named = item if isinstance(item, Mapping) else dict(zip("xry", item, strict=True))
            if unread := [*named.keys() - {*"xry"}]:
                raise ValueError(f"batch {number} must have x, r and y alone, got also {unread}")
            block = {n: as_tensor(f"{n} of batch {number}", named[n], _CPU) for n in "xry"}
            block["y"] = block["y"].reshape(len(block["y"]))
            same_rows(**block)
            yield block

    def place(self, row: int, argument: str, column: int | None) -> str:
        """Where a row, or a value of it, is, in words."""
        return f"{place(row, None if argument == 'y' else column)} of data"


#: What `fit` reads rows from that memory does not hold.
Source = ParquetRows | BatchRows


def _numbers(schema: Any, names: list[str]) -> str:
    """The type in which columns are read: float32 if all have it, or less, otherwise float64."""
    from pyarrow import types

    of = [schema.field(name).type for name in names]
    numbers = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    for name, kind in zip(names, of, strict=True):
        if not any(is_one(kind) for is_one in (*numbers, types.is_null)):
            raise TypeError(f"x, r and y must name columns with numbers, got {name!r} with {kind}")
    return "float32" if all(str(kind) in ("float", "halffloat") for kind in of) else "float64"


def _readable(fragment: Any) -> Any:
    """Inside, a file that is no Parquet file, or no longer the one it was, is named."""
    return undamaged(f"{fragment.path} cannot be read:", FileNotFoundError, PermissionError)
