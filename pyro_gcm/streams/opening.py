"""The source of the rows of what a user has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor

from pyro_gcm._utils.table import as_frame, is_record_batch
from pyro_gcm._utils.validation import shown
from pyro_gcm.streams.batches import BatchSource
from pyro_gcm.streams.parquet import ParquetSource
from pyro_gcm.streams.source import Source
from pyro_gcm.streams.tables import TableSource

_WANTED = "data must be a pyarrow Dataset or Table, a data frame, a DataLoader or other batches"


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
    names = {"x": x, "r": r, "y": y}
    reads = _reader_of_tables(data)
    if reads is not None:
        for argument, name in names.items():
            if name is None:
                raise ValueError(f"{argument} must name columns of data, got None")
        table, source_of = reads
        return source_of(table, x, r, y)
    others = (str, bytes, PathLike, Mapping, Tensor, np.ndarray)
    if isinstance(data, others) or not isinstance(data, Iterable):
        advice = ": open files with pyarrow.dataset.dataset(path)"
        paths = isinstance(data, str | bytes | PathLike)
        raise TypeError(f"{_WANTED}, got {shown(data)}{advice if paths else ''}")
    for argument, name in names.items():
        if name is not None:
            raise ValueError(
                f"{argument} must be left out where data gives batches (x, r, y), got {shown(name)}"
            )
    return BatchSource(data)


def _reader_of_tables(data: Any) -> tuple[Any, Callable[..., Source]] | None:
    """A table and the source that reads it; None if the data is none."""
    import narwhals as nw

    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(data, dataset.Dataset):
        return data, ParquetSource
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"{_WANTED}, got a {type(data).__module__.partition('.')[0]} {type(data).__name__}, "
            "which has no rows yet: collect it, or write it to Parquet files"
        )
    if isinstance(frame, nw.DataFrame) or is_record_batch(data):
        return as_frame(data, "data"), TableSource
    return None
