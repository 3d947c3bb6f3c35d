"""What a survival estimator takes for y, read into `SurvivalTimes`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyro_gcm._table import as_frame
from pyro_gcm._validation import kind
from pyro_gcm.data.survival_times import SurvivalTimes

_WANTED = (
    "SurvivalTimes, a structured array or DataFrame with one boolean column (whether the event "
    "came) and one of times, a pair (event, time) or (lower, upper), or (lower, upper, entry)"
)


def event_times(y: Any) -> SurvivalTimes:
    """The times of events, from any of the forms that `GCMSurvival.fit` takes.

    :raises TypeError: for another form.
    :raises ValueError: for impossible times, naming the first row, and for columns that do not say
        what they are.
    """
    if isinstance(y, SurvivalTimes):
        return y
    if isinstance(y, np.ndarray) and y.dtype.names:
        return _of_columns({name: y[name] for name in y.dtype.names})
    if isinstance(y, tuple | list) and len(y) in (2, 3) and all(map(_is_column, y)):
        return _of_parts([_array(part) for part in y])
    if isinstance(y, np.ndarray | Tensor):
        array = _array(y)
        if array.ndim == 2 and array.shape[1] in (2, 3):
            return _of_parts(list(array.T))
        raise ValueError(f"y must be {_WANTED}, got an array of shape {array.shape}")
    frame = as_frame(y, "y")
    if frame is None:
        raise TypeError(f"y must be {_WANTED}, got {kind(y)}")
    return _of_columns({str(name): frame[name].to_numpy() for name in frame.columns})


def _is_column(part: Any) -> bool:
    return np.ndim(part) == 1 and len(part) > 0 and not isinstance(part, str)


def _array(part: Any) -> npt.NDArray[Any]:
    return part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)


def _of_columns(columns: dict[str, npt.NDArray[Any]]) -> SurvivalTimes:
    """Events and times of two columns, told apart by their types."""
    events = [name for name, column in columns.items() if column.dtype == bool]
    times = [name for name, column in columns.items() if column.dtype.kind in "iuf"]
    if len(columns) != 2 or len(events) != 1 or len(times) != 1:
        kinds = {name: str(column.dtype) for name, column in columns.items()}
        raise ValueError(
            f"y must have one boolean column, whether the event came, and one of times, got {kinds}"
        )
    return SurvivalTimes.right_censored(columns[times[0]], columns[events[0]])


def _of_parts(parts: list[npt.NDArray[Any]]) -> SurvivalTimes:
    """(event, time, entry) or (lower, upper, entry): the first two columns, or all three."""
    first, second, *entry = parts
    if first.dtype == bool:
        return SurvivalTimes.right_censored(second, first, *entry)
    if first.dtype.kind in "iu" and np.isin(first, (0, 1)).all() and (first == 1).any():
        raise ValueError(
            "y must say what its first column is: booleans are events, and decimal numbers are "
            "lower bounds of the times; got whole numbers that are all 0 or 1"
        )
    return SurvivalTimes(first, second, *entry)
