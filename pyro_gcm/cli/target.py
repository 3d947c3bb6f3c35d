"""The target column of a table: which kind of model it needs, and what that is fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._lists import parts_of
from pyro_gcm.cli.columns import type_of
from pyro_gcm.cli.errors import WrongUse, listed

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("classifier", "regressor", "distribution", "ordinal", "survival")


@dataclass(frozen=True)
class Target:
    """What a model is fitted to.

    :param kind: one of `KINDS`.
    :param y: as `fit` of the estimator takes it, [n].
    :param labels: the two classes, the second of which is the event, or the levels in their order.
    """

    kind: str
    y: npt.NDArray[Any]
    labels: list[Any] | None = None


def target_of(
    frame: pd.DataFrame,
    target: str,
    *,
    kind: str | None,
    event: str | None,
    levels: str | None,
    positive: str | None,
) -> Target:
    """Read the target of a table.

    :raises WrongUse: for a target that does not fit its kind, and options of another kind.
    """
    column = complete(frame[target], "--target")
    kind = kind or _inferred(column, event, levels)
    of_kind = {"--event": "survival", "--levels": "ordinal", "--positive": "classifier"}
    for option, given in (("--event", event), ("--levels", levels), ("--positive", positive)):
        if given is not None and of_kind[option] != kind:
            raise WrongUse(f"{option} is for --kind {of_kind[option]}, and this one is {kind}")
    if kind == "classifier":
        return _two_classes(column, positive)
    if kind == "ordinal":
        return _levels(column, levels)
    values = numbers(column, kind)
    if kind != "survival":
        return Target(kind, values)
    if event is None:
        raise WrongUse(
            "--kind survival needs --event, the column that says whether the event came at the "
            "time in --target (1) or not by then (0)"
        )
    return Target(kind, times(values, complete(frame[event], "--event"), target))


def complete(column: pd.Series[Any], option: str) -> pd.Series[Any]:
    """Return a column without missing values."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise WrongUse(
            f"{option} {column.name!r} must have a value in every row, and {missing.sum()} of "
            f"{len(column)} are missing, the first in row {int(missing.argmax()) + 1}"
        )
    return column


def _inferred(column: pd.Series[Any], event: str | None, levels: str | None) -> str:
    kind, count = type_of(column), column.nunique()
    if event is not None:
        return "survival"
    if levels is not None or (kind.startswith("ordered") and count > 2):
        return "ordinal"
    if count == 2:
        return "classifier"
    if kind in ("number", "whole number") and count > 2:
        return "regressor"
    what = f"{count} {'value' if count == 1 else 'values'} ({listed(_texts(column))})"
    hint = "" if count < 2 else "; ordered levels need --levels, such as --levels low,medium,high"
    raise WrongUse(
        f"--target {column.name!r} must have two values, or numbers, and has {what}{hint}"
    )


def _texts(column: pd.Series[Any]) -> list[str]:
    """The different values of a column, sorted, as text."""
    return [str(value) for value in np.unique(_values(column)).tolist()]


def _values(column: pd.Series[Any]) -> npt.NDArray[Any]:
    """Labels as an array of text, booleans or numbers."""
    found = np.array(column.tolist())
    return found.astype(str) if found.dtype.kind not in "biuf" else found


def _two_classes(column: pd.Series[Any], positive: str | None) -> Target:
    values = _values(column)
    classes = np.unique(values)
    if len(classes) != 2:
        raise WrongUse(
            f"--target {column.name!r} of a classifier must have two values, and has "
            f"{len(classes)}: {listed(_texts(column))}"
        )
    labels = classes.tolist()
    texts = [str(label) for label in labels]
    if positive is not None and positive not in texts:
        raise WrongUse(f"--positive must be {texts[0]!r} or {texts[1]!r}, got {positive!r}")
    if positive is None or positive == texts[1]:
        return Target("classifier", values, labels)
    return Target("classifier", values == classes[0], labels[::-1])


def _levels(column: pd.Series[Any], levels: str | None) -> Target:
    """Ordered labels: in the order of the option, of the type, or of numbers."""
    import pandas as pd

    values = _values(column)
    are_numbers = values.dtype.kind in "iuf"
    known = {str(value): value for value in np.unique(values).tolist()}
    if levels is not None:
        order: Sequence[Any] = [known.get(name, name) for name in parts_of(levels, known)]
    elif isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
        order = column.dtype.categories.tolist()
    elif are_numbers:
        order = list(known.values())
    else:
        raise WrongUse(
            f"--kind ordinal needs --levels for text, such as --levels {','.join(known)}, in the "
            "order from the lowest to the highest"
        )
    if are_numbers and any(isinstance(level, str) for level in order):
        strange = next(level for level in order if isinstance(level, str))
        raise WrongUse(f"--levels must be values of {column.name!r}, got {strange!r}")
    lacking = [text for text, value in known.items() if value not in order]
    if lacking:
        raise WrongUse(f"--levels must have all values of {column.name!r}, and lacks {lacking[0]}")
    if len(order) < 2 or len(set(order)) < len(order):
        raise WrongUse(f"--levels must be two or more different values, got {listed(order)}")
    return Target("ordinal", values, list(order))


def numbers(column: pd.Series[Any], kind: str) -> npt.NDArray[np.float64]:
    """Finite numbers of a column, [n]."""
    if type_of(column) not in ("number", "whole number", "boolean"):
        raise WrongUse(
            f"--target {column.name!r} must have numbers for --kind {kind}, and has "
            f"{type_of(column)}, such as {column.iloc[0]!r}"
        )
    values = column.to_numpy(dtype=np.float64)
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax()) + 1
        raise WrongUse(f"--target {column.name!r} must be finite, and is infinite in row {row}")
    return values


def times(values: npt.NDArray[np.float64], event: pd.Series[Any], target: str) -> npt.NDArray[Any]:
    """Events and times as a structured array."""
    came = _values(event)
    if came.dtype.kind not in "biuf" or not np.isin(came, (0, 1)).all():
        strange = next(value for value in came.tolist() if value not in (0, 1))
        raise WrongUse(
            f"--event {event.name!r} must have 1 (the event came) and 0 (it did not), or true and "
            f"false, got {strange!r}"
        )
    if (values < 0.0).any():
        row = int((values < 0.0).argmax())
        raise WrongUse(
            f"--target {target!r} must have times of at least 0, got {values[row]:g} in row "
            f"{row + 1}"
        )
    found = np.empty(len(values), dtype=[("event", bool), ("time", np.float64)])
    found["event"], found["time"] = came, values
    return found
