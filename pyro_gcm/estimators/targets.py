"""Targets, whatever they came as: numbers, text, levels or times of events; weights of rows."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from pyro_gcm._utils.validation import InvalidValue, kind, shown, without_tensor
from pyro_gcm.data.frames import as_frame, unmasked
from pyro_gcm.data.tables import of_times

Array = npt.NDArray[np.float64]
Values = npt.NDArray[Any]
#: What pandas infers of objects: the type they get, or that they are times.
_TYPES: dict[str, type] = {
    "boolean": bool,
    "string": str,
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), float),
}
_TIMES = ("date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period")


def target_column(name: str, value: Any, *, finite: bool = True) -> Values:
    """The values of one column, [n], none of which is missing.

    :param name: how messages call the column.
    :param finite: whether infinite numbers are refused.
    :returns: booleans, whole or decimal numbers, or text, as the values themselves are: True and
        False in a column of objects are booleans. Other objects come back as they are.
    :raises TypeError: for dates, times and durations.
    :raises ValueError: for other shapes, values that are missing, and text mixed with numbers.
    """
    values = column_or_1d(_array(name, value), warn=True)
    if values.dtype.kind in "OT":
        values = _of_objects(name, values.astype(object))
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind in "Mm":
        raise TypeError(of_times(name, str(values.dtype)))
    if values.dtype.kind not in "biufUSO":
        raise TypeError(f"{name} must have numbers, booleans or text, got {values.dtype}")
    if values.dtype.kind == "f":
        _refuse_missing(name, np.isnan(values))
        if finite and np.isinf(values).any():
            row = int(np.isinf(values).argmax())
            raise InvalidValue(f"{name} must be finite, and is infinite", row)
    return values


def target_numbers(name: str, value: Any) -> Array:
    """The values of a column of finite numbers, [n].

    :raises TypeError: as `target_column` does; ValueError likewise, and for text.
    """
    values = target_column(name, value)
    if values.dtype.kind in "US":
        raise ValueError(f"{name} must have numbers, and has text, such as {str(values[0])!r}")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must have numbers: {error}") from error


def has_numbers(column: Any) -> bool:
    """Whether a column is of booleans or numbers."""
    return _array("y", column).dtype.kind in "biuf"


def refuse_exposures(name: str, exposure: Array) -> None:
    """Refuse exposures that are not above 0.

    :raises ValueError: naming the first row.
    """
    if (wrong := ~(exposure > 0.0)).any():
        row = int(wrong.argmax())
        raise InvalidValue(f"{name} must be above 0, got {exposure[row]:g}", row)


def check_labels(name: str, labels: Values) -> None:
    """Refuse values of `target_column` that are no labels.

    :raises ValueError: for continuous numbers, whole numbers beyond 64 bits, and other objects.
    """
    if labels.dtype.kind == "O":
        raise ValueError(
            f"{name} must have labels of text, booleans, or numbers of at most 64 bits, got "
            f"{kind(labels[0])}, such as {max(labels, key=str)!r}: make them text"
        )
    check_classification_targets(labels)


def row_weights(sample_weight: Any, target: Any) -> Array | None:
    """Checked weights of the rows of a target, [n], or None."""
    if sample_weight is None:
        return None
    if not isinstance(sample_weight, Real):
        sample_weight = _array("sample_weight", sample_weight)
    options: Any = {"dtype": np.float64, "ensure_non_negative": True}
    given = _check_sample_weight(sample_weight, target, **options)
    if not (given > 0).any():
        raise ValueError("sample_weight must have a positive weight, got only zeros")
    checked: Array = given
    return checked


def levels_in_order(y: Any, levels: Any) -> Values | None:
    """The levels that `levels` or an ordered type of y names; None where neither does.

    :raises TypeError: for levels that are no list.
    :raises ValueError: for fewer than two levels, and for one that is there twice.
    """
    if levels is None:
        frame = as_frame(y, "y")
        one = frame is not None and len(frame.columns) == 1
        return _of_type(frame[frame.columns[0]].to_native() if one else y)
    if isinstance(levels, str) or not isinstance(levels, Sequence | np.ndarray):
        raise TypeError(f"levels must be a list of labels in their order, got {kind(levels)}")
    plain = all(isinstance(level, str | Real | np.generic) for level in levels)
    found = _as_labels(list(levels)) if plain else np.empty(0)
    if len(found) < 2 or len(set(found.tolist())) < len(found):
        raise ValueError(f"levels must be two or more different labels, got {shown(list(levels))}")
    return found


def places_of(
    labels: Values, classes: Values, name: str = "y", among: str = "levels"
) -> npt.NDArray[np.intp]:
    """Where each label [n] stands among the classes.

    :param name: how messages call the labels; `among`: and the classes.
    :raises ValueError: for a label that is not among them.
    """
    place = {label: at for at, label in enumerate(classes.tolist())}
    if classes.dtype.kind in "US":  # of labels of other types too, such as intervals of pandas
        labels = labels.astype(str)
    known = labels.tolist()
    for row, label in enumerate(known):
        if label not in place:
            raise InvalidValue(
                f"{name} must have labels among {among}, {classes.tolist()}, got {label!r}", row
            )
    return np.array([place[label] for label in known], dtype=np.intp)


def _array(name: str, value: Any) -> Values:
    """An array; what a masked one hides is missing."""
    value = without_tensor(value)
    if isinstance(value, np.ma.MaskedArray):
        return unmasked(value) if np.ma.is_masked(value) else value.data
    try:
        found = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must have one value a row, got {kind(value)}: {error}") from error
    if found.dtype.kind == "U" and isinstance(value, list | tuple):
        return np.array(value, dtype=object)  # in which NaN and numbers are not text
    return found


def _of_objects(name: str, values: npt.NDArray[np.object_]) -> Values:
    """Objects as an array of the one type that they have, if it is plain."""
    import pandas as pd

    missing = pd.isna(values)
    given = values[~missing]
    kind_of_all = pd.api.types.infer_dtype(given)
    if kind_of_all in _TIMES:
        raise TypeError(of_times(name, f"{given[0]}"))
    _refuse_missing(name, missing)
    if kind_of_all == "integer":
        whole = np.array(given.tolist())
        return values if whole.dtype.kind == "f" else whole  # of objects beyond 64 bits
    if kind_of_all in _TYPES:
        return values.astype(_TYPES[kind_of_all])
    others = [value for value in given if not isinstance(value, str)]
    if 0 < len(others) < len(given):
        raise ValueError(
            f"{name} mixes text and {kind(others[0])}, such as {others[0]!r}: make it one"
        )
    return values


def _refuse_missing(name: str, missing: npt.NDArray[np.bool_]) -> None:
    if missing.any():
        raise InvalidValue(
            f"{name} must have a value in every row, and {missing.sum()} of {len(missing)} are "
            "missing, the first",
            int(missing.argmax()),
        )


def _of_type(y: Any) -> Values | None:
    """The categories of an ordered type."""
    import narwhals as nw
    import pandas as pd

    y = pd.Series(y) if isinstance(y, pd.Categorical) else y
    series = nw.from_native(y, series_only=True, pass_through=True)
    dtype: Any = series.dtype if isinstance(series, nw.Series) else None
    return _as_labels(list(dtype.categories)) if dtype == nw.Enum else None


def _as_labels(values: list[Any]) -> Values:
    """An array of numbers or text."""
    found = target_column("levels", values)
    return found.astype(str) if found.dtype.kind == "O" else found
