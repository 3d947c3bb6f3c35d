"""The one reader of tables: their columns, and names that are text.

A table is a DataFrame (pandas, polars and what else narwhals reads), a table or record batch of
Arrow, a mapping from names to columns, an array, or a list of rows or records. Names of columns are
text, "0" for 0. Columns are numbers with NaN, or labels with None, whatever their values came as.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, count
from numbers import Integral, Real
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm._utils.names import known_name
from pyro_gcm._utils.validation import InvalidValue, shown, without_tensor
from pyro_gcm.data.frames import as_array, as_frame, with_names

#: Columns of times, by the name of their narwhals dtype, and single values.
_TIMES = ("Datetime", "Date", "Time", "Duration")
OF_TIME = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_EXACT = 2**53  # float64 holds every integer of this size
#: Types that a list of values, and its values, have where nothing has to be found out.
_LISTS, _PLAIN = {list, tuple}, {bool, int, float, str, type(None)}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    :param label: how messages name it, such as "column 'age'" or "column 3".
    :param numbers: float64 [n], NaN where one is missing; None for labels.
    :param labels: text or numbers [n], None where one is missing; of numbers only for integers that
        float64 does not hold.
    :param categorical: whether its type says that it is a category: a categorical type or text.
    :param levels: those of an ordered categorical type, in their order.
    """

    label: str
    numbers: npt.NDArray[np.float64] | None = None
    labels: npt.NDArray[np.object_] | None = None
    categorical: bool = False
    levels: tuple[str | float, ...] | None = None

    def take(self, index: npt.NDArray[np.intp]) -> Column:
        """The rows `index`."""
        numbers = None if self.numbers is None else self.numbers[index]
        labels = None if self.labels is None else self.labels[index]
        return replace(self, numbers=numbers, labels=labels)

    def as_labels(self) -> npt.NDArray[np.object_]:
        """The values as labels."""
        if self.labels is not None:
            return self.labels
        assert self.numbers is not None
        found = self.numbers.astype(object)
        found[np.isnan(self.numbers)] = None
        return found

    @property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Where there is no value, [n]."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.array([label is None for label in self.as_labels()], dtype=bool)


class Table(list[Column]):
    """The columns of a table, with their names where it has any."""

    def __init__(self, columns: Sequence[Column], names: Sequence[str] | None = None) -> None:
        super().__init__(columns)
        self.names = None if names is None else list(names)

    def take(self, index: npt.NDArray[np.intp]) -> Table:
        """The rows `index` of all columns."""
        return Table([column.take(index) for column in self], self.names)


def signs_of(name: str, given: Any, count: int, names: Sequence[str] | None = None) -> list[int]:
    """+1, -1 or 0 for each column.

    :param name: of the argument, in messages.
    :param given: an entry a column, or a mapping from names of columns, to which others have 0.
    :param names: of the columns, if they have any.
    :raises ValueError: for other entries, another number of them, and unknown names.
    """
    if isinstance(given, pd.Series) and any(isinstance(each, str) for each in given.index):
        given = given.to_dict()
    if isinstance(given, Mapping):
        known = list(names or ())
        of_name = {known_name(str(each), known): sign for each, sign in given.items()}
        if unknown := [each for each in of_name if each not in known]:
            raise ValueError(f"{name} names {unknown}, and X has the columns {known}")
        given = [of_name.get(each, 0) for each in known]
    entries = np.asarray(without_tensor(given), dtype=object)
    is_sign = [not isinstance(sign, bool) and sign in (-1, 0, 1) for sign in entries.flat]
    if entries.shape != (count,) or not all(is_sign):
        wanted = f"must be +1, -1 or 0 for each of the {count} columns"
        raise ValueError(f"{name} {wanted}, got {shown(given)}")
    return [int(sign) for sign in entries]


def read_table(table: Any, estimator: Any = None) -> Table:
    """The columns of a table.

    :param estimator: named in the errors for arrays.
    :raises TypeError: for values that are neither numbers nor text, and sparse matrices.
    :raises ValueError: for tables without rows or columns, infinite numbers, and columns that mix
        numbers and text.
    """
    from sklearn.utils.validation import check_array

    if (read := _of_values(table)) is not None:
        return read
    table = with_names(as_array("X", table), "X")
    names: Sequence[str] | None = None
    frame: Any = table if isinstance(table, pd.DataFrame) else as_frame(table)
    if frame is not None:
        if 0 in frame.shape:
            raise ValueError(f"X must have rows and columns, got shape {frame.shape}")
        names = list(frame.columns)
        # narwhals takes longer than pandas itself.
        series = [each for _, each in table.items()] if frame is table else frame.iter_columns()
    else:
        if isinstance(table, Sequence):
            table = np.array(table, dtype=object)  # numbers beside text stay numbers
        options: Any = {"dtype": None, "ensure_all_finite": False, "input_name": "X"}
        series = check_array(table, estimator=estimator, **options).T
        series = series if series.dtype.kind in "biuf" else map(pd.Series, series)
    labels = zip(series, names or count(), strict=False)
    return Table([_column(values, f"column {label!r}") for values, label in labels], names)


def _of_values(table: Any) -> Table | None:
    """The columns of records, of rows or of lists by name, or None unless all values are plain.

    A frame in between would say the same of them, and takes milliseconds for a row.
    """
    keys: list[Any] | None = None
    columns: Sequence[Any] = []
    kinds = {*map(type, table)} if type(table) is list else set()
    if type(table) is dict:
        keys, columns = [*table], [*table.values()]
    elif kinds == {dict}:
        keys = [*dict.fromkeys(chain.from_iterable(table))]
        columns = [[row.get(key) for row in table] for key in keys]
    elif kinds and kinds <= _LISTS and len({*map(len, table)}) == 1:
        columns = [*zip(*table, strict=True)]
    names = None if keys is None else [*map(str, keys)]
    if not columns or not {*map(type, columns)} <= _LISTS or len({*map(len, columns)}) > 1:
        return None
    if not (found := {*map(type, chain.from_iterable(columns))}) or not found <= _PLAIN:
        return None
    if names is not None and len({*names}) < len(names):
        return None
    labels = zip(columns, names or count(), strict=False)
    read = [_of_objects(values, f"column {label!r}") for values, label in labels]
    # Beside a missing value a frame has lost the digits of whole numbers that are this large.
    large = any(column.numbers is not None and column.labels is not None for column in read)
    return None if large else Table(read, names)


def of_times(where: str, kind: str) -> str:
    """The message about dates, times and durations."""
    instead = "pass numbers in their place, such as seconds, or the days since a date"
    return f"{where} has dates, times or durations ({kind}): {instead}"


def _column(series: Any, label: str) -> Column:
    if isinstance(series, np.ndarray):
        whole = series.dtype.kind in "iu"
        return _of_numbers(series.astype(np.float64), label, series.tolist, whole)
    if isinstance(series, pd.Series):
        if series.dtype == object and not series.hasnans:  # which would make floats of integers
            series = series.infer_objects()
        kind: Any = series.dtype
        if isinstance(kind, np.dtype) and kind.kind in "biuf":
            return _column(series.to_numpy(), label)
        if isinstance(kind, pd.StringDtype):
            labels = series.to_numpy(dtype=object, copy=True)
            labels[missing := pd.isna(labels)] = None
            if not missing.all():
                return Column(label, None, labels, categorical=True)
        series = nw.from_native(series, series_only=True)
    kind = series.dtype
    if kind == nw.Boolean or kind.is_numeric():
        missing, given = series.is_null().to_numpy(), series
        if missing.any():
            series = series.fill_null(False if kind == nw.Boolean else 0)
        if not (kind == nw.Boolean or kind.is_integer()):  # of which Arrow casts small ones alone
            series = series.cast(nw.Float64)
        values = series.to_numpy().astype(np.float64)
        values[missing] = np.nan
        return _of_numbers(values, label, given.to_list, kind.is_integer())
    if kind in (nw.String, nw.Unknown) and series.is_null().all():  # what it would have is unknown
        return Column(label, np.full(len(series), np.nan))
    if kind in (nw.Categorical, nw.String, nw.Enum):
        ordered = kind.categories if kind == nw.Enum else None
        levels = ordered and tuple(_label(level, label) for level in ordered)
        return Column(label, None, _labels(series.to_list(), label), True, levels)
    if type(kind).__name__ in _TIMES:
        raise TypeError(of_times(f"{label} of X", str(kind)))
    if kind == nw.Object:
        return _of_objects(series.to_list(), label)
    if kind == nw.Unknown:
        kind = getattr(series.to_native(), "dtype", kind)
    raise TypeError(f"{label} of X must have numbers, text or categories, got {kind}")


def _of_numbers(
    numbers: npt.NDArray[np.float64], label: str, exact: Callable[[], Sequence[Any]], whole: bool
) -> Column:
    if (infinite := np.isinf(numbers)).any():
        told = f"{label} of X must be finite or missing, and is infinite"
        raise InvalidValue(told, int(infinite.argmax()))
    large = whole and (np.abs(numbers) > _EXACT).any()
    return Column(label, numbers, _labels(exact(), label) if large else None)


def _of_objects(values: Sequence[Any], label: str) -> Column:
    given = [None if _is_missing(value) else value for value in values]
    text = [row for row, value in enumerate(given) if isinstance(value, str | bytes)]
    rest = [row for row, v in enumerate(given) if not isinstance(v, str | bytes | None)]
    if text and rest:
        one, other = (f"{given[i[0]]!r} in row {i[0]}" for i in sorted((text, rest), key=len))
        advice = "make it one, or None where a value is missing"
        raise ValueError(f"{label} of X mixes text and numbers: {one} beside {other}: {advice}")
    if text:
        return Column(label, labels=_labels(given, label), categorical=True)
    numbers = np.array([np.nan if value is None else _number(value, label) for value in given])
    whole = all(isinstance(given[row], Integral) for row in rest)
    return _of_numbers(numbers, label, lambda: given, whole)


def _labels(values: Sequence[Any], label: str) -> npt.NDArray[np.object_]:
    codes = {v: None if _is_missing(v) else _label(v, label) for v in dict.fromkeys(values)}
    if len({isinstance(code, str) for code in codes.values() if code is not None}) > 1:
        raise ValueError(f"{label} of X mixes text and numbers in its categories: make them one")
    found = np.empty(len(values), dtype=object)
    found[:] = [codes[value] for value in values]
    return found


def _label(value: Any, label: str) -> str | float:
    if isinstance(value, str | bytes):
        return value.decode() if isinstance(value, bytes) else str(value)
    if not isinstance(value, Real | np.bool_ | Decimal):
        raise TypeError(
            f"{label} of X has categories that are neither text nor numbers, such as {value!r}: "
            "rename them, for example with X[...].cat.rename_categories(str), which keeps an order"
        )
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return float(value)


def _number(value: Any, label: str) -> float:
    if isinstance(value, OF_TIME):
        raise TypeError(of_times(f"{label} of X", type(value).__name__))
    if not isinstance(value, Real | np.bool_ | Decimal):
        kind = type(value).__name__
        raise TypeError(f"{label} of X: argument must be a string or a number, got {kind}")
    return float(value)


def _is_missing(value: Any) -> bool:
    return pd.isna(value) is True
