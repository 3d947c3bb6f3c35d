"""Columns of tables: numbers with NaN, or labels with None, whatever their values came as."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.validation import shown

#: Types of columns that are told what to do about, by the name of their narwhals dtype.
_TIMES = ("Datetime", "Date", "Time", "Duration")
#: Types of single values that are told the same.
OF_TIME = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
#: float64 holds every integer of this size.
_EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """One column of a table.

    :param label: how messages name it, such as "column 'age'" or "column 3".
    :param numbers: its values, float64 [n], NaN where one is missing; None for labels.
    :param labels: its values, text or numbers [n], None where one is missing; None for numbers,
        but for integers that float64 does not hold.
    :param categorical: whether its type says that it is a category: a categorical type or text.
    :param levels: the levels of an ordered categorical type, in their order.
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


def numbers_of(series: Any) -> npt.NDArray[Any]:
    """The values [n] of a narwhals series of numbers or booleans, NaN where one is null."""
    import narwhals as nw

    kind, missing = series.dtype, series.is_null().to_numpy()
    if missing.any():
        series = series.fill_null(False if kind == nw.Boolean else 0)
    if not (kind == nw.Boolean or kind.is_integer()):  # of which Arrow casts small ones alone
        series = series.cast(nw.Float32 if kind == nw.Float32 else nw.Float64)
    values: npt.NDArray[Any] = series.to_numpy()
    if missing.any():
        values = values.astype(np.result_type(values, np.float32))
        values[missing] = np.nan
    return values


def unmasked(array: Any) -> npt.NDArray[Any]:
    """A masked array as one with NaN or None where it is masked."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64).filled(np.nan)
    return array.astype(object).filled(None)


def column_of(series: Any, label: str) -> Column:
    """A series of pandas or narwhals as a column."""
    import narwhals as nw
    import pandas as pd

    if isinstance(series, pd.Series):  # the common types, for which narwhals takes longer
        kind = series.dtype
        if isinstance(kind, np.dtype) and kind.kind in "biuf" and kind.itemsize <= 8:
            return _of_numbers(series.to_numpy(), label, series.to_list)
        if isinstance(kind, pd.StringDtype):
            labels = series.to_numpy(dtype=object, copy=True)
            labels[missing := pd.isna(labels)] = None
            if not missing.all():
                return Column(label, labels=labels, categorical=True)
        series = nw.from_native(series, series_only=True)
    kind = series.dtype
    if kind == nw.Boolean or kind.is_numeric():
        return _of_numbers(numbers_of(series), label, series.to_list, kind.is_integer())
    if kind == nw.Enum:
        levels = tuple(_label(level, label) for level in kind.categories)
        labels = _labels(series.to_list(), label)
        return Column(label, labels=labels, categorical=True, levels=levels)
    if kind in (nw.String, nw.Unknown) and series.is_null().all():  # what it would have is unknown
        return Column(label, np.full(len(series), np.nan))
    if kind in (nw.Categorical, nw.String):
        return Column(label, labels=_labels(series.to_list(), label), categorical=True)
    if type(kind).__name__ in _TIMES:
        raise TypeError(of_times(f"{label} of X", str(kind)))
    if kind == nw.Object:
        return _of_objects(series.to_list(), label)
    if kind == nw.Unknown:
        kind = getattr(series.to_native(), "dtype", kind)
    raise TypeError(f"{label} of X must have numbers, text or categories, got {kind}")


def of_times(where: str, kind: str) -> str:
    """Return the message about dates, times and durations."""
    return (
        f"{where} has dates, times or durations ({kind}): pass numbers in their place, such "
        "as seconds, or the days since a date"
    )


def columns_of(table: Any, estimator: Any = None) -> list[Column]:
    """The columns of an array, or of a list of rows."""
    from sklearn.utils.validation import check_array

    if isinstance(table, np.ma.MaskedArray):
        table = unmasked(table)
    elif isinstance(table, Sequence) and _kind_of(table) in "US":
        table = np.array(table, dtype=object)  # numbers beside text stay numbers
    array = check_array(
        table, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X"
    )
    labels = [f"column {j}" for j in range(array.shape[1])]
    if array.dtype.kind in "biuf":
        return [_of_numbers(v, label, v.tolist) for v, label in zip(array.T, labels, strict=True)]
    if array.dtype.kind in "OUST":
        objects = array.astype(object)
        return [_of_objects(objects[:, j], label) for j, label in enumerate(labels)]
    if array.dtype.kind in "mM":
        raise TypeError(of_times(f"{labels[0]} of X", str(array.dtype)))
    raise TypeError(f"X must have numbers or text, got an array of {array.dtype}")


def _of_numbers(
    values: npt.NDArray[Any],
    label: str,
    exact: Callable[[], Sequence[Any]],
    whole: bool | None = None,
) -> Column:
    """A column of numbers.

    :param exact: gives the values of large integers.
    :param whole: whether they are integers, which their type says by default.
    """
    numbers = values.astype(np.float64)
    whole = values.dtype.kind in "iu" if whole is None else whole
    large = whole and (np.abs(numbers) > _EXACT).any()
    return Column(label, numbers, _labels(exact(), label) if large else None)


def _kind_of(rows: Sequence[Any]) -> str:
    """The kind of array that a list of rows would be."""
    try:
        return np.asarray(rows).dtype.kind
    except ValueError as error:
        raise ValueError(f"X must have rows of one length, got {shown(rows)}: {error}") from error


def _of_objects(values: Sequence[Any] | npt.NDArray[np.object_], label: str) -> Column:
    """A column of Python objects: numbers, or text."""
    given = [None if _is_missing(value) else value for value in values]
    text = [row for row, value in enumerate(given) if isinstance(value, str | bytes)]
    rest = [row for row, v in enumerate(given) if not isinstance(v, str | bytes | None)]
    if not text:
        numbers = [np.nan if value is None else _number(value, label) for value in given]
        return Column(label, np.array(numbers, dtype=np.float64))
    if rest:
        few, most = (text, rest) if len(text) <= len(rest) else (rest, text)
        raise ValueError(
            f"{label} of X mixes text and numbers: {given[few[0]]!r} in row {few[0]} beside "
            f"{given[most[0]]!r} in row {most[0]}: make it one, or None where a value is missing"
        )
    return Column(label, labels=_labels(given, label), categorical=True)


def _labels(values: Sequence[Any], label: str) -> npt.NDArray[np.object_]:
    distinct = dict.fromkeys(values)
    codes = {v: None if _is_missing(v) else _label(v, label) for v in distinct}
    if len({isinstance(code, str) for code in codes.values() if code is not None}) > 1:
        raise ValueError(f"{label} of X mixes text and numbers in its categories: make them one")
    found = np.empty(len(values), dtype=object)
    found[:] = [codes[value] for value in values]
    return found


def _label(value: Any, label: str) -> str | float:
    """A level as text or as a number."""
    if isinstance(value, str | bytes):
        return _text(value, label)
    if not isinstance(value, Real | np.bool_ | Decimal):
        raise TypeError(
            f"{label} of X has categories that are neither text nor numbers, such as {value!r}: "
            "rename them, for example with X[...].cat.rename_categories(str), which keeps an order"
        )
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return _number(value, label)


def _number(value: Any, label: str) -> float:
    if isinstance(value, OF_TIME):
        raise TypeError(of_times(f"{label} of X", type(value).__name__))
    if not isinstance(value, Real | np.bool_ | Decimal):
        raise TypeError(
            f"{label} of X: argument must be a string or a number, got {type(value).__name__}"
        )
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{label} of X has a number that is too large for float64") from error


def _text(value: str | bytes, label: str) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise ValueError(f"{label} of X has bytes that are no text in UTF-8: {error}") from error


def _is_missing(value: Any) -> bool:
    """None, NaN, or what pandas has in their place."""
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (value != value) is True
