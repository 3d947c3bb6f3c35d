"""Targets, whatever they came as: numbers, text, levels or times of events; weights of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d
from torch import Tensor

from pyro_gcm._utils.validation import InvalidValue, kind, shown, without_tensor
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.data.tables import as_frame, of_times, unmasked

Array = npt.NDArray[np.float64]
Values = npt.NDArray[Any]
#: What pandas infers of objects: the type they get, or that they are times.
_TYPES: dict[str, type] = {
    "boolean": bool,
    "string": str,
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), float),
}
_TIMES = ("date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period")
#: Numbers of causes, 0 included, of a column that is known by them.
_CODES = 10
#: What messages call a column "event", which has the events whatever the other one has.
_NAMED = "y['event']"
_WANTED = (
    "SurvivalTimes, a structured array or DataFrame with a column of events and one of times, a "
    "pair (event, time) or (event, time, entry), or those as the columns of one array"
)


class NoPairs(ValueError):
    """No two times can be compared."""


def event_times(y: Any) -> SurvivalTimes:
    """The times of events, from any of the forms that `GCMSurvival.fit` takes.

    :raises TypeError: for another form, and dates, times and durations.
    :raises ValueError: for impossible times, naming the first row, and for columns that do not say
        what they are.
    """
    if isinstance(y, SurvivalTimes):
        return y
    columns = _columns(y)
    both, entry = [*columns][:2], [*columns][2:]
    read = {name: target_column(name, columns[name], finite=False) for name in both}
    event = _event_among(read)
    came = came_of(event, read.pop(event))
    ((time, values),) = read.items()
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{time} must have times, and has values such as {values[0].item()!r}")
    late = [target_column(name, columns[name]) for name in entry]
    return SurvivalTimes.right_censored(values, came, *late)


def first_causes(y: Any, causes: Sequence[str] = ()) -> dict[str, SurvivalTimes]:
    """The latent times of causes, from any of the forms that `GCMCompetingRisks.fit` takes.

    :param causes: all of them; by default those in y, sorted.
    :raises TypeError: as `event_times`; ValueError likewise, and for fewer than two causes.
    """
    if isinstance(y, Mapping) and all(isinstance(own, SurvivalTimes) for own in y.values()):
        found = {str(cause): own for cause, own in y.items()}
        if causes and {*found} != {*causes}:
            raise ValueError(f"y must have the causes {[*causes]}, got {[*found]}")
    else:
        columns = _columns(y)
        if len(columns) > 2:
            raise ValueError("y must be causes and times, and has a third part")
        texts = [name for name, column in columns.items() if not _has_numbers(column)]
        named = [name for name in columns if name in (_NAMED, "y['cause']")] or texts
        if len(named) != 1:
            read = {n: target_column(n, column, finite=False) for n, column in columns.items()}
            named = [_event_among(read)]
        cause = columns.pop(named[0])
        ((name, values),) = columns.items()
        found = SurvivalTimes.competing(target_numbers(name, values), np.asarray(cause), causes)
    if len(found) < 2:
        raise ValueError(f"y must have two causes or more, got {[*found]}: GCMSurvival is for one")
    return {cause: found[cause] for cause in causes or sorted(found)}


def _has_numbers(column: Any) -> bool:
    return _array("y", column).dtype.kind in "biuf"


def came_of(name: str, events: Values) -> npt.NDArray[np.bool_]:
    """Whether events occurred, [n].

    :param name: how messages call the column.
    :param events: as `target_column` returns them.
    :raises ValueError: for anything but booleans, 0 and 1: other numbers may be causes.
    """
    wrong = np.array([event not in (0, 1) for event in events.tolist()])
    if wrong.any():
        row = int(wrong.argmax())
        several = ""
        if events.dtype.kind in "iuf":
            several = (
                f"; where 2 alone says that it occurred, as in R, pass {name} == 2, and several "
            )
            several += "causes are for GCMCompetingRisks, or --kind competing"
        raise InvalidValue(
            f"{name} must have 1 (the event occurred) and 0 (it did not), or true and "
            f"false{several}, got {events[row].item()!r}",
            row,
        )
    return events == 1


def _columns(y: Any) -> dict[str, Any]:
    """Two columns of y, and perhaps the times of entry, by what messages call them."""
    frame = as_frame(y, "y")  # of a structured array and a mapping too
    if frame is not None:
        if len(frame.columns) == 2:
            return {f"y[{name!r}]": frame[name].to_native() for name in frame.columns}
        raise ValueError(f"y must have a column of events and one of times, got {frame.columns}")
    if isinstance(y, tuple | list) and len(y) in (2, 3) and all(map(_is_column, y)):
        return {f"y[{at}]": column for at, column in enumerate(y)}
    if isinstance(y, Tensor):
        y = np.asarray(without_tensor(y))
    if not isinstance(y, np.ndarray):
        raise TypeError(f"y must be {_WANTED}, got {kind(y)}")
    if y.ndim != 2 or y.shape[1] not in (2, 3):
        raise ValueError(f"y must be {_WANTED}, got an array of shape {tuple(y.shape)}")
    return {f"y[:, {at}]": y[:, at] for at in range(y.shape[1])}


def _is_column(part: Any) -> bool:
    return not isinstance(part, str) and np.ndim(part) == 1 and len(part) > 0


def _event_among(columns: dict[str, Values]) -> str:
    """The one of two columns that has events: by its name, its type, or else by its values."""
    if _NAMED in columns:
        return _NAMED
    events = [name for name, column in columns.items() if column.dtype.kind == "b"]
    by_value = not events
    if by_value:
        for known in (2, _CODES):  # 0 and 1, else the numbers of causes
            names = [name for name, column in columns.items() if _is_below(known, column)]
            events = events or names
        others = [column for name, column in columns.items() if name not in events]
    if len(events) != 1 or (by_value and np.isin(others[0], (0, 1, 2)).all()):
        some = {name: np.unique(column)[:3].tolist() for name, column in columns.items()}
        kinds = ", ".join(f"{name} with {values}" for name, values in some.items())
        raise ValueError(
            "y must have one column of events, which are booleans, or 0 and 1 beside times that "
            f"have other values, got {kinds}; bounds of times are data.SurvivalTimes(lower, upper)"
        )
    return events[0]


def _is_below(codes: int, column: Values) -> bool:
    """Whether a column has whole numbers from 0 on, and below that, alone."""
    return column.dtype.kind in "iuf" and bool(np.isin(column, range(codes)).all())


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
