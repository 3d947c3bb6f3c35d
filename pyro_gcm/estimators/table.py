"""A table as its columns: numbers with NaN, or labels with None, whatever it came as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyro_gcm._validation import as_tensor

#: Types of columns that are told what to do about, by the name of their narwhals dtype.
_TIMES = ("Datetime", "Date", "Time", "Duration")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    :param label: how messages name it, such as "column 'age'" or "column 3".
    :param numbers: its values, float64 [n], NaN where one is missing; None for labels.
    :param labels: its values, str or float [n], None where one is missing; None for numbers.
    :param categorical: whether its type says that it is a category: a categorical type or text.
    :param levels: the levels of an ordered categorical type, in their order.
    """

    label: str
    numbers: npt.NDArray[np.float64] | None = None
    labels: npt.NDArray[np.object_] | None = None
    categorical: bool = False
    levels: tuple[str | float, ...] | None = None

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
        assert self.labels is not None
        return np.array([label is None for label in self.labels], dtype=bool)


def read_table(table: Any, estimator: Any = None) -> list[Column]:
    """The columns of a DataFrame (pandas, polars, Arrow), an array, or lists of rows.

    :param estimator: named in the errors for arrays.
    :raises TypeError: for values that are neither numbers nor text, sparse matrices, and columns of
        dates or times.
    :raises ValueError: for tables without rows or columns, infinite numbers, and columns that mix
        numbers and text.
    """
    if isinstance(table, Tensor):  # numpy has no bfloat16
        table = as_tensor("X", table).cpu().numpy()
    frame = as_frame(table)
    columns = _of_frame(frame) if frame is not None else _of_array(table, estimator)
    for column in columns:
        if column.numbers is not None and np.isinf(column.numbers).any():
            row = int(np.flatnonzero(np.isinf(column.numbers))[0])
            raise ValueError(
                f"X must be finite or missing, got infinity in row {row} of {column.label}"
            )
    return columns


def as_frame(table: Any) -> Any:
    """The table as a narwhals DataFrame, or None if it is no DataFrame."""
    import narwhals as nw

    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        if callable(getattr(table, "collect", None)):
            raise TypeError(
                f"X must have its rows in memory, got {type(table).__name__}: pass X.collect()"
            ) from None
        return None


def column_names(table: Any) -> list[str] | None:
    """The names of the columns of a DataFrame, or None for arrays and names that are no text."""
    frame = as_frame(table)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return list(frame.columns)


def _of_frame(frame: Any) -> list[Column]:
    rows, count = frame.shape
    if not rows or not count:
        raise ValueError(f"X must have at least one row and one column, got shape {frame.shape}")
    return [
        _of_series(series, f"column {name!r}")
        for name, series in zip(frame.columns, frame.iter_columns(), strict=True)
    ]


def _of_series(series: Any, label: str) -> Column:
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Boolean or kind.is_numeric():
        numbers = series.cast(nw.Float64).to_numpy()
        missing = series.is_null().to_numpy()
        return Column(label, np.where(missing, np.nan, numbers).astype(np.float64))
    if kind == nw.Enum:
        levels = tuple(_label(level, label) for level in kind.categories)
        return Column(label, labels=_labels(series, label), categorical=True, levels=levels)
    if kind == nw.String and series.is_null().all():  # what it would have is not known
        return Column(label, np.full(len(series), np.nan))
    if kind in (nw.Categorical, nw.String):
        return Column(label, labels=_labels(series, label), categorical=True)
    if kind == nw.Unknown and series.is_null().all():  # the Null type of polars and Arrow
        return Column(label, np.full(len(series), np.nan))
    if type(kind).__name__ in _TIMES:
        raise TypeError(
            f"{label} of X has dates or times ({kind}): pass a number in their place, such as the "
            "days since a date"
        )
    if kind == nw.Object:
        return _of_objects(np.array(series.to_list(), dtype=object), label)
    if kind == nw.Unknown:
        kind = getattr(series.to_native(), "dtype", kind)
    raise TypeError(f"{label} of X must have numbers, text or categories, got {kind}")


def _of_array(table: Any, estimator: Any) -> list[Column]:
    from sklearn.utils.validation import check_array

    array = check_array(
        table, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X"
    )
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
        return [Column(f"column {j}", numbers[:, j]) for j in range(array.shape[1])]
    if array.dtype.kind in "OUS":
        objects = array.astype(object)
        return [_of_objects(objects[:, j], f"column {j}") for j in range(array.shape[1])]
    raise TypeError(f"X must have numbers or text, got an array of {array.dtype}")


def _of_objects(values: npt.NDArray[np.object_], label: str) -> Column:
    """A column of Python objects: numbers, or text."""
    given = [None if _is_missing(value) else value for value in values]
    text = [isinstance(value, str | bytes) for value in given if value is not None]
    if not any(text):
        numbers = [np.nan if value is None else _number(value, label) for value in given]
        return Column(label, np.array(numbers, dtype=np.float64))
    if not all(text):
        other = next(v for v in given if v is not None and not isinstance(v, str | bytes))
        raise ValueError(
            f"{label} of X mixes text and {type(other).__name__}, such as {other!r}: make it one"
        )
    return Column(label, labels=_filled([_text(v, label) for v in given]), categorical=True)


def _labels(series: Any, label: str) -> npt.NDArray[np.object_]:
    codes: dict[Any, str | float | None] = {}
    found: list[str | float | None] = []
    for value in series.to_list():
        if _is_missing(value):
            found.append(None)
            continue
        if value not in codes:
            codes[value] = _label(value, label)
        found.append(codes[value])
    kinds = {type(value) for value in codes.values()}
    if len(kinds) > 1:
        raise ValueError(f"{label} of X mixes text and numbers in its categories: make them one")
    return _filled(found)


def _label(value: Any, label: str) -> str | float:
    """A level as text or as a number."""
    if isinstance(value, str | bytes):
        text = _text(value, label)
        assert text is not None
        return text
    if not isinstance(value, Real | np.bool_ | Decimal):
        raise TypeError(
            f"{label} of X has categories that are neither text nor numbers, such as {value!r}: "
            "rename them, for example with X[...].cat.rename_categories(str), which keeps an order"
        )
    return _number(value, label)


def _number(value: Any, label: str) -> float:
    if not isinstance(value, Real | np.bool_ | Decimal):
        raise TypeError(
            f"{label} of X: argument must be a string or a number, got {type(value).__name__}"
        )
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{label} of X has a number that is too large for float64") from error


def _text(value: Any, label: str) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise ValueError(f"{label} of X has bytes that are no text in UTF-8: {error}") from error


def _filled(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _is_missing(value: Any) -> bool:
    """None, NaN, or what pandas has in their place."""
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (value != value) is True
