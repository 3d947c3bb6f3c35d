"""The one reader of tables: columns of numbers with NaN, or of labels with None.

A table is a DataFrame (pandas, polars and what else narwhals reads), a table or record batch of
Arrow, a mapping from names to columns, an array, or a list of rows. The names of its columns are
text: "0" for 0, and "('a', 'b')" for a name of a MultiIndex.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyro_gcm._validation import as_tensor, shown
from pyro_gcm._warn import warn_user

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


class Table(list[Column]):
    """The columns of a table, with their names where it has any."""

    def __init__(self, columns: Sequence[Column], names: Sequence[str] | None = None) -> None:
        super().__init__(columns)
        self.names = None if names is None else list(names)

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
    found = _of_frame(frame) if frame is not None else Table(_of_array(table, estimator))
    for column in found:
        if column.numbers is not None and np.isinf(column.numbers).any():
            row = int(np.flatnonzero(np.isinf(column.numbers))[0])
            raise ValueError(
                f"X must be finite or missing, got infinity in row {row} of {column.label}"
            )
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
            values = series.to_list()
        found[key] = pd.Series(values).reset_index(drop=True)
    if len(set(map(len, found.values()))) > 1:
        lengths = {key: len(values) for key, values in found.items()}
        raise ValueError(f"{name} must have columns of one length, got {lengths}")
    return pd.DataFrame(found)


def unmasked(array: Any) -> npt.NDArray[Any]:
    """A masked array as one with NaN or None where it is masked."""
    found: npt.NDArray[Any]
    if array.dtype.kind in "biuf":
        found = array.astype(np.float64).filled(np.nan)
    else:
        found = array.astype(object).filled(None)
    return found


def _other_names(names: Sequence[str], known: Sequence[str]) -> str:
    """What to say of names that are not those of fit, as scikit-learn says it."""
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
    columns = [
        _of_series(series, f"column {name!r}")
        for name, series in zip(frame.columns, frame.iter_columns(), strict=True)
    ]
    return Table(columns, frame.columns)


def _of_series(series: Any, label: str) -> Column:
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Boolean or kind.is_numeric():
        values = numbers_of(series)
        large = kind.is_integer() and (np.abs(values.astype(np.float64)) > _EXACT).any()
        return Column(
            label,
            values.astype(np.float64),
            _labels(series.to_list(), label) if large else None,
        )
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
    """What to say of dates, times and durations."""
    return (
        f"{where} has dates, times or durations ({kind}): pass numbers in their place, such "
        "as seconds, or the days since a date"
    )


def _of_array(table: Any, estimator: Any) -> list[Column]:
    from sklearn.utils.validation import check_array

    if isinstance(table, np.ma.MaskedArray):
        table = unmasked(table)
    elif isinstance(table, Sequence) and np.asarray(table).dtype.kind in "US":
        table = np.array(table, dtype=object)  # numbers beside text stay numbers
    array = check_array(
        table, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X"
    )
    labels = [f"column {j}" for j in range(array.shape[1])]
    if array.dtype.kind in "biuf":
        numbers, found = array.astype(np.float64), []
        for j, label in enumerate(labels):
            large = array.dtype.kind in "iu" and (np.abs(numbers[:, j]) > _EXACT).any()
            exact = _labels(array[:, j].tolist(), label) if large else None
            found.append(Column(label, numbers[:, j], exact))
        return found
    if array.dtype.kind in "OUS":
        objects = array.astype(object)
        return [_of_objects(objects[:, j], label) for j, label in enumerate(labels)]
    if array.dtype.kind in "mM":
        raise TypeError(of_times(f"{labels[0]} of X", str(array.dtype)))
    raise TypeError(f"X must have numbers or text, got an array of {array.dtype}")


def _of_objects(values: Sequence[Any] | npt.NDArray[np.object_], label: str) -> Column:
    """A column of Python objects: numbers, or text."""
    given = [None if _is_missing(value) else value for value in values]
    text = [row for row, value in enumerate(given) if isinstance(value, str | bytes)]
    count = sum(value is not None for value in given)
    if not text:
        numbers = [np.nan if value is None else _number(value, label) for value in given]
        return Column(label, np.array(numbers, dtype=np.float64))
    if len(text) < count:
        there = set(text)
        rest = [row for row, v in enumerate(given) if v is not None and row not in there]
        few, most = (text, rest) if len(text) <= len(rest) else (rest, text)
        raise ValueError(
            f"{label} of X mixes text and numbers: {given[few[0]]!r} in row {few[0]} beside "
            f"{given[most[0]]!r} in row {most[0]}: make it one, or None where a value is missing"
        )
    return Column(label, labels=_labels(given, label), categorical=True)


def _labels(values: Sequence[Any], label: str) -> npt.NDArray[np.object_]:
    codes: dict[Any, str | float | None] = {}
    found = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        if _is_missing(value):
            continue
        if value not in codes:
            codes[value] = _label(value, label)
        found[row] = codes[value]
    if len({isinstance(value, str) for value in codes.values()}) > 1:
        raise ValueError(f"{label} of X mixes text and numbers in its categories: make them one")
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
