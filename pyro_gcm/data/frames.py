"""Tables of any library as data frames, whose names are text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor

from pyro_gcm._utils.validation import as_tensor, shown


def as_frame(table: Any, name: str = "X") -> Any:
    """The table as a narwhals DataFrame whose names are text, or None if it has no names.

    :param name: of the argument, in messages.
    :raises TypeError: for a table without rows in memory, and a mapping to anything but columns.
    :raises ValueError: for names that come twice, and columns of different lengths.
    """
    table = with_names(table, name)
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        if callable(getattr(table, "collect", None)):
            got = f"got {type(table).__name__}: pass {name}.collect()"
            raise TypeError(f"{name} must have its rows in memory, {got}") from None
        return None


def with_names(table: Any, name: str) -> Any:
    """The table, with names that are text: a DataFrame of pandas where it was records, say."""
    if isinstance(table, np.ndarray) and table.dtype.names:
        table = {field: table[field] for field in table.dtype.names}
    if isinstance(table, Mapping) and not hasattr(table, "tocsr"):  # as sparse matrices may be
        table = _of_mapping(table, name)
    elif isinstance(table, list) and table and all(isinstance(row, Mapping) for row in table):
        table = pd.DataFrame(table)
    elif type(table).__module__.startswith("pyarrow") and type(table).__name__ == "RecordBatch":
        import pyarrow as pa

        table = pa.Table.from_batches([table])
    if type(table).__module__.startswith("pandas") and hasattr(table, "set_axis"):
        names = [str(each) for each in getattr(table, "columns", ())]
        if names and names != list(table.columns):
            table = table.set_axis(names, axis=1)
        if len(set(names)) < len(names):
            twice = max(names, key=names.count)
            raise ValueError(f"{name} must have each column once, got {twice!r} twice")
    return table


def _of_mapping(table: Mapping[Any, Any], name: str) -> Any:
    """A DataFrame of columns, whose indexes say nothing."""
    found = {}
    for key, values in table.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise TypeError(f"{name} must have a column for {key!r}, got {shown(values)}")
        values = as_array(f"{name}[{key!r}]", values)
        if not isinstance(values, pd.Series | pd.Categorical | np.ndarray | list | tuple):
            series = nw.from_native(values, series_only=True, pass_through=True)
            if isinstance(series, nw.Series):
                kind: Any = series.dtype
                values = pd.Series(series.to_list(), dtype=object)
                if kind == nw.Enum:
                    values = pd.Categorical(values, list(kind.categories), ordered=True)
        found[key] = values.array if isinstance(values, pd.Series) else values
    if len(set(map(len, found.values()))) > 1:
        lengths = {key: len(values) for key, values in found.items()}
        raise ValueError(f"{name} must have columns of one length, got {lengths}")
    return pd.DataFrame(found)


def as_array(name: str, values: Any) -> Any:
    """An array in place of a tensor, since numpy has no bfloat16, and of a masked one."""
    if isinstance(values, Tensor):
        return as_tensor(name, values).cpu().numpy()
    return unmasked(values) if isinstance(values, np.ma.MaskedArray) else values


def unmasked(array: Any) -> npt.NDArray[Any]:
    """A masked array as one with NaN or None where it is masked."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64).filled(np.nan)
    return array.astype(object).filled(None)
