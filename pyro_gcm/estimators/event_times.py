"""Targets with times: of events, of first causes, and which column says what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyro_gcm._utils.validation import InvalidValue, kind, without_tensor
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.data.tables import as_frame
from pyro_gcm.estimators.targets import Values, has_numbers, target_column, target_numbers

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
        texts = [name for name, column in columns.items() if not has_numbers(column)]
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
