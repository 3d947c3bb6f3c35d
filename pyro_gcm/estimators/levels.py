"""Ordered labels: which levels there are, in which order, and where each label stands."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.table import as_frame
from pyro_gcm._utils.validation import WrongCell, kind, shown
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.estimators.targets import target_column

Labels = npt.NDArray[Any]


def levels_in_order(y: Any, levels: Any) -> Labels | None:
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
    labels: Labels, classes: Labels, name: str = "y", among: str = "levels"
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
            raise WrongCell(
                f"{name} must have labels among {among}, {classes.tolist()}, got {label!r}", row
            )
    return np.array([place[label] for label in known], dtype=np.intp)


def _of_type(y: Any) -> Labels | None:
    """The categories of an ordered type; a warning tells of text that has none."""
    import narwhals as nw

    try:
        series = nw.from_native(y, series_only=True)
    except TypeError:
        found = getattr(y, "categories", None)  # a Categorical of pandas by itself
        if found is not None and getattr(y, "ordered", False):
            return _as_labels(list(found))
        _warn_of_text(y)
        return None
    if series.dtype == nw.Enum:
        return _as_labels(list(series.dtype.categories))
    _warn_of_text(series.to_list())
    return None


def _as_labels(values: list[Any]) -> Labels:
    """An array of numbers or text."""
    found = target_column("levels", values)
    return found.astype(str) if found.dtype.kind == "O" else found


def _warn_of_text(y: Any) -> None:
    labels = np.asarray(y) if not hasattr(y, "detach") else np.zeros(1)
    if labels.ndim == 1 and len(labels) and isinstance(labels[0], str):
        found = sorted({str(label) for label in labels.tolist()})
        if len(found) > 2:
            warn_user(
                f"y has text without an order, and its labels are taken in sorted order, "
                f"{found[:9]}: pass levels=, or an ordered categorical type"
            )
