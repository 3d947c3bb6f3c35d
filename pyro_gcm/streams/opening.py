"""The sources that rows are read from, those of a user among them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from pyro_gcm._utils.table import as_frame, is_record_batch
from pyro_gcm._utils.validation import shown
from pyro_gcm.streams.batches import BatchSource
from pyro_gcm.streams.blocks import Block
from pyro_gcm.streams.tables import FrameSource, ParquetSource

_WANTED = "data must be a pyarrow Dataset or Table, a data frame, a DataLoader or other batches"


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


def open_source(
    data: Any,
    x: Sequence[str] | None = None,
    r: Sequence[str] | None = None,
    y: str | None = None,
) -> Source:
    """The rows of data that need not fit into memory. No row is read.

    :param data: a `pyarrow.dataset.Dataset` of Parquet files; a `pyarrow.Table` or a data frame
        (pandas, polars and others that narwhals reads); or a `torch.utils.data.DataLoader` or
        another iterable that gives the same batches (x, r, y), or dictionaries with these names, at
        each pass.
    :param x: names of columns; None for batches.
    :param r: names of columns; None for batches.
    :param y: name of a column; None for batches.
    :raises TypeError: for other data, names that are no text, and columns without numbers.
    :raises ValueError: for names that are missing, unknown, not wanted or given twice, for no rows,
        and for batches that come only once or in another order at each pass.

    Example::

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [31, 42], "price": [1.5, 2.0], "sold": [False, True]})
        >>> source = open_source(frame, ["age"], ["price"], "sold")
        >>> next(source.read(0))["y"]
        tensor([0., 1.], dtype=torch.float64)
    """
    import narwhals as nw

    frame: Any = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"{_WANTED}, got a {type(data).__module__.partition('.')[0]} {type(data).__name__}, "
            "which has no rows yet: collect it, or write it to Parquet files"
        )
    dataset = sys.modules.get("pyarrow.dataset")
    has_files = dataset is not None and isinstance(data, dataset.Dataset)
    has_columns = has_files or isinstance(frame, nw.DataFrame) or is_record_batch(data)
    others = (str, bytes, PathLike, Mapping, Tensor, np.ndarray)
    if not has_columns and (isinstance(data, others) or not isinstance(data, Iterable)):
        paths = isinstance(data, str | bytes | PathLike)
        advice = ": open files with pyarrow.dataset.dataset(path)" if paths else ""
        raise TypeError(f"{_WANTED}, got {shown(data)}{advice}")
    for argument, name in {"x": x, "r": r, "y": y}.items():
        if has_columns and name is None:
            raise ValueError(f"{argument} must name columns of data, got None")
        if not has_columns and name is not None:
            raise ValueError(
                f"{argument} must be left out where data gives batches (x, r, y), got {shown(name)}"
            )
    if x is None or r is None or y is None:
        return BatchSource(data)
    return (
        ParquetSource(data, x, r, y) if has_files else FrameSource(as_frame(data, "data"), x, r, y)
    )
