"""Times of events: those that come as y, curves over time, and the concordance of risks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyro_gcm._utils.validation import WrongCell, kind, warn_user, without_tensor
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.data.tables import as_frame
from pyro_gcm.estimators.targets import Array, Values, target_column

#: The numbers that say that an event did not come, and that it did.
Codes = tuple[int, int]
#: 0 and 1; or 1 and 2, as in R.
_CODES: tuple[Codes, ...] = ((0, 1), (1, 2))
#: What messages call a column "event", which has the events whatever the other one has.
_NAMED = "y['event']"
_WANTED = (
    "SurvivalTimes, a structured array or DataFrame with a column of events and one of times, a "
    "pair (event, time) or (event, time, entry), or those as the columns of one array"
)


def event_times(y: Any, codes: Codes | None = None) -> tuple[SurvivalTimes, Codes | None]:
    """The times of events, from any of the forms that `GCMSurvival.fit` takes.

    :param codes: how numbers say whether an event came, as they did in fit; None if not known.
    :returns: the times, and how numbers say whether an event came; None where none do.
    :raises TypeError: for another form, and dates, times and durations.
    :raises ValueError: for impossible times, naming the first row, and for columns that do not say
        what they are.
    """
    if isinstance(y, SurvivalTimes):
        return y, codes
    columns = _columns(y)
    both, entry = [*columns][:2], [*columns][2:]
    read = {name: target_column(name, columns[name], finite=False) for name in both}
    event = _event_among(read)
    came, codes = came_of(event, read.pop(event), codes)
    ((time, values),) = read.items()
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{time} must have times, and has {_type(values)}")
    late = [target_column(name, columns[name]) for name in entry]
    return SurvivalTimes.right_censored(values, came, *late), codes


def came_of(
    name: str, events: Values, codes: Codes | None = None
) -> tuple[npt.NDArray[np.bool_], Codes | None]:
    """Whether events came, [n], and how numbers say so, as `event_times` returns it.

    :param name: how messages call the column.
    :param events: as `target_column` returns them.
    :raises ValueError: for anything but booleans, and numbers of one of the codes.
    """
    if events.dtype.kind == "b":
        return events, codes
    found = codes or _codes_of(events)
    wrong = np.array([event not in (found or _CODES[0]) for event in events.tolist()])
    if wrong.any():
        wanted = "2 (the event came) and 1" if codes == _CODES[1] else "1 (the event came) and 0"
        row = int(wrong.argmax())
        raise WrongCell(
            f"{name} must have {wanted} (it did not), or true and false, got "
            f"{events[row].item()!r}",
            row,
        )
    if found == _CODES[1] and codes is None:
        warn_user(f"{name} has events of 1 and 2, and 2 is read as an event that came, as in R")
    return events == (found or _CODES[0])[1], found


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
        events = [name for name, column in columns.items() if _codes_of(column)]
        others = [column for name, column in columns.items() if name not in events]
    if len(events) != 1 or (by_value and np.isin(others[0], (0, 1, 2)).all()):
        kinds = ", ".join(f"{name} with {_type(column)}" for name, column in columns.items())
        raise ValueError(
            "y must have one column of events, which are booleans, or 0 and 1 beside times that "
            f"have other values, got {kinds}; bounds of times are data.SurvivalTimes(lower, upper)"
        )
    return events[0]


def _codes_of(column: Values) -> Codes | None:
    """The numbers by which a column may say whether events came."""
    if column.dtype.kind not in "iuf":
        return None
    return next((codes for codes in _CODES if np.isin(column, codes).all()), None)


def _type(column: Values) -> str:
    if column.dtype.kind == "b":
        return "booleans"
    if column.dtype.kind not in "iuf":
        return f"values such as {str(column[0])!r}"
    seen = np.unique(column)
    return f"the numbers {seen.tolist()}" if len(seen) < 4 else f"{len(seen)} different numbers"


class TimeCurve:
    """A function of time for one row: exact at its times and linear between them.

    :param x: times, rising, [T].
    :param y: values at the times, [T].
    :param start: value at time 0.
    """

    def __init__(self, x: Array, y: Array, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    @property
    def domain(self) -> tuple[float, float]:
        """The times between which it can be called."""
        return 0.0, float(self.x[-1])

    def __call__(self, time: Any) -> Any:
        """Values at times of any shape.

        :raises ValueError: for times outside of `domain`.
        """
        at = np.asarray(time, dtype=np.float64)
        low, high = self.domain
        if not ((at >= low) & (at <= high)).all():
            raise ValueError(
                f"time must lie in [{low:g}, {high:g}], got values from {at.min():g} to "
                f"{at.max():g}: name later times in times= of the method that made the curve"
            )
        values = np.interp(at, np.append(0.0, self.x), np.append(self.start, self.y))
        return values if at.ndim else float(values)

    def __repr__(self) -> str:
        return f"TimeCurve({len(self.x)} times up to {self.x[-1]:g})"


def curves(times: Array, values: Array, start: float) -> npt.NDArray[np.object_]:
    """A curve for each row of values [n, T], as an array of objects [n]."""
    return np.array([TimeCurve(times, of_row, start) for of_row in values], dtype=object)


class NoPairs(ValueError):
    """No two rows can be compared."""


def harrell_concordance(
    time: Array, event: npt.NDArray[np.bool_], risk: Array, weight: Array | None = None
) -> float:
    """The share of comparable pairs of rows in which the higher risk had the earlier event.

    A pair is comparable if the event of one row came before the time of the other, or at the same
    time if the other was censored then. Equal risks count half (Harrell et al. 1996).

    :param time: of the event or of censoring, [n].
    :param event: whether the event came, [n].
    :param risk: [n].
    :param weight: of the rows, [n]; a pair has the product of theirs.
    :raises NoPairs: if no pair is comparable.
    """
    weight = np.ones(len(time)) if weight is None else weight
    right = total = 0.0
    for row in np.flatnonzero(event):
        later = (time > time[row]) | ((time == time[row]) & ~event)
        ahead = risk[row] - risk[later]
        of_pairs = weight[row] * weight[later]
        right += float(of_pairs @ ((ahead > 0.0) + 0.5 * (ahead == 0.0)))
        total += float(of_pairs.sum())
    if total == 0.0:
        raise NoPairs("y must have a row whose event came before the time of another row")
    return right / total
