"""The one reader of tables: their columns, and names that are text.

A table is a DataFrame (pandas, polars and what else narwhals reads), a table or record batch of
Arrow, a mapping from names to columns, an array, or a list of rows. The names of its columns are
text: "0" for 0, and "('a', 'b')" for a name of a MultiIndex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyro_gcm._utils.validation import WrongCell, as_tensor, shown
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.data.columns import Column, column_of, columns_of, unmasked


class Table(list[Column]):
    """The columns of a table, with their names where it has any."""

    def __init__(self, columns: Sequence[Column], names: Sequence[str] | None = None) -> None:
        super().__init__(columns)
        self.names = None if names is None else list(names)

    def take(self, index: npt.NDArray[np.intp]) -> Table:
        """The rows `index` of all columns."""
        return Table([column.take(index) for column in self], self.names)

    def like(self, names: Sequence[str] | None, count: int, owner: str) -> Table:
        """These columns in the order of those that something was fitted to.

        They are found by name; by position where one of the two has no names, with a warning.

        :param names: those of the columns in `fit`, if they had any.
        :param count: how many they were.
        :param owner: what was fitted, in messages.
        :raises ValueError: for a column that is missing or unknown, and another number of columns.
        """
        if self.names is not None and names is not None:
            if set(self.names) != set(names):
                raise ValueError(_other_names(self.names, names))
            place = {name: at for at, name in enumerate(self.names)}
            return Table([self[place[name]] for name in names], names)
        if len(self) != count:
            raise ValueError(
                f"X has {len(self)} features, but {owner} is expecting {count} features as input"
            )
        positions = [str(place) for place in range(count)]
        if self.names is not None and self.names != positions:
            warn_user(f"X has feature names, but {owner} was fitted without feature names")
        if names is not None and list(names) != positions:
            warn_user(
                f"X does not have valid feature names, but {owner} was fitted with feature names"
            )
        return self


def read_table(table: Any, estimator: Any = None) -> Table:
    """The columns of a table.

    :param estimator: named in the errors for arrays.
    :raises TypeError: for values that are neither numbers nor text, sparse matrices, and columns of
        dates, times or durations.
    :raises ValueError: for tables without rows or columns, infinite numbers, and columns that mix
        numbers and text.
    """
    if isinstance(table, Tensor):  # numpy has no bfloat16
        table = as_tensor("X", table).cpu().numpy()
    frame = as_frame(table)
    found = _of_frame(frame) if frame is not None else Table(columns_of(table, estimator))
    for column in found:
        if column.numbers is not None and np.isinf(column.numbers).any():
            row = int(np.flatnonzero(np.isinf(column.numbers))[0])
            told = f"{column.label} of X must be finite or missing, and is infinite"
            raise WrongCell(told, row)
    return found


def as_frame(table: Any, name: str = "X") -> Any:
    """The table as a narwhals DataFrame whose names are text, or None if it has no names.

    :param name: of the argument, in messages.
    :raises TypeError: for a table without rows in memory, and a mapping to anything but columns.
    :raises ValueError: for names that come twice, and columns of different lengths.
    """
    import narwhals as nw

    if isinstance(table, np.ndarray) and table.dtype.names:
        table = {field: table[field] for field in table.dtype.names}
    if isinstance(table, Mapping) and not hasattr(table, "tocsr"):  # as sparse matrices may be
        table = _of_mapping(table, name)
    elif is_record_batch(table):
        import pyarrow as pa

        table = pa.Table.from_batches([table])
    if type(table).__module__.startswith("pandas") and hasattr(table, "set_axis"):
        names = [str(each) for each in getattr(table, "columns", ())]
        if names and names != list(table.columns):
            table = table.set_axis(names, axis=1)
        twice = [each for each, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"{name} must have each column once, got {twice[0]!r} twice")
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        if callable(getattr(table, "collect", None)):
            raise TypeError(
                f"{name} must have its rows in memory, got {type(table).__name__}: pass "
                f"{name}.collect()"
            ) from None
        return None


def is_record_batch(table: Any) -> bool:
    """Whether it is a record batch of Arrow, which is not imported for that."""
    return type(table).__module__.startswith("pyarrow") and type(table).__name__ == "RecordBatch"


def _of_mapping(table: Mapping[Any, Any], name: str) -> Any:
    """A DataFrame of columns, whose indexes say nothing."""
    import narwhals as nw
    import pandas as pd

    found = {}
    for key, values in table.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise TypeError(f"{name} must have a column for {key!r}, got {shown(values)}")
        if isinstance(values, Tensor):
            values = as_tensor(f"{name}[{key!r}]", values).cpu().numpy()
        elif isinstance(values, np.ma.MaskedArray):
            values = unmasked(values)
        series = nw.from_native(values, series_only=True, pass_through=True)
        if isinstance(series, nw.Series) and not isinstance(values, pd.Series):
            kind: Any = series.dtype
            values = series.to_list()
            if kind == nw.Enum:
                values = pd.Categorical(values, list(kind.categories), ordered=True)
            elif kind.is_integer():
                unsigned = kind.is_unsigned_integer()
                values = pd.Series(values, dtype="UInt64" if unsigned else "Int64")
        found[key] = pd.Series(values).reset_index(drop=True)
    if len(set(map(len, found.values()))) > 1:
        lengths = {key: len(values) for key, values in found.items()}
        raise ValueError(f"{name} must have columns of one length, got {lengths}")
    return pd.DataFrame(found)


def _other_names(names: Sequence[str], known: Sequence[str]) -> str:
    """Return scikit-learn's message about names that are not those of fit."""
    found = "The feature names should match those that were passed during fit.\n"
    unseen = [name for name in names if name not in set(known)]
    lacking = [name for name in known if name not in set(names)]
    for title, which in (
        ("Feature names unseen at fit time:", unseen),
        ("Feature names seen at fit time, yet now missing:", lacking),
    ):
        if which:
            found += "\n".join([title, *(f"- {name}" for name in which[:5]), ""])
            found += "- ...\n" if len(which) > 5 else ""
    return found


def _of_frame(frame: Any) -> Table:
    rows, count = frame.shape
    if not rows or not count:
        raise ValueError(f"X must have at least one row and one column, got shape {frame.shape}")
    import pandas as pd

    names, native = frame.columns, frame.to_native()
    whole = isinstance(native, pd.DataFrame)
    series = (native[name] for name in native) if whole else frame.iter_columns()
    pairs = zip(series, names, strict=True)
    return Table([column_of(values, f"column {name!r}") for values, name in pairs], names)
