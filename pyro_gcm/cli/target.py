"""The target column of a table: which kind of model it needs, and what came of the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm import estimators
from pyro_gcm.cli.columns import column_of, type_of
from pyro_gcm.cli.errors import WrongUse, blamed, listed
from pyro_gcm.cli.lists import as_argument, list_of, parts_of
from pyro_gcm.cli.saved import SavedModel
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.estimators.event_times import Codes, came_of
from pyro_gcm.estimators.kinds import KINDS
from pyro_gcm.estimators.kinds import outcomes_of as read_by
from pyro_gcm.estimators.targets import levels_in_order, places_of, target_column, target_numbers


@dataclass(frozen=True)
class Target:
    """The outcomes that a model is fitted to.

    :param kind: one of `estimators.kinds.KINDS`.
    :param y: as `fit` of the estimator takes it, [n].
    :param options: of the estimator: the levels in their order, or the positive class.
    :param codes: how numbers said whether an event came, which y has as booleans.
    """

    kind: str
    y: Any
    options: dict[str, Any]
    codes: Codes | None = None

    def estimator(self, directions: Mapping[str, int], **options: Any) -> Any:
        """The estimator for the target, not yet fitted.

        :param options: of the estimator; the horizon is that of a survival model alone.
        """
        of_kind = KINDS[self.kind]
        if self.kind != "survival":
            options.pop("horizon")
        if self.kind == "distribution":  # that of a regressor is the better one for the rows
            options["response"] = of_kind.response
        made = getattr(estimators, of_kind.classes[0])
        return made(monotonic_cst=dict(directions), **self.options, **options)

    def split(
        self, share: float | None, seed: int, groups: Any = None
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The rows to fit to, and those held out; both have both classes of a classifier.

        :param groups: of rows that stay together, [n], or None.
        """
        rows = np.arange(len(self.y))
        if share is None:
            return rows, rows[:0]
        strata = self.y if self.kind == "classifier" else None
        held, least = math.ceil(share * len(rows)), 1 if strata is None else 2
        if not least <= held <= len(rows) - least:
            raise WrongUse(
                f"--test-share must leave {least} or more rows on either side, and {share:g} of "
                f"{len(rows)} rows holds out {held}"
            )
        from sklearn.model_selection import GroupShuffleSplit, train_test_split

        options: Any = {"test_size": share, "random_state": seed}
        with blamed("--test-share"):
            if groups is not None:
                train, test = next(GroupShuffleSplit(1, **options).split(rows, groups=groups))
            else:
                train, test = train_test_split(rows, stratify=strata, **options)
        return np.sort(train), np.sort(test)


def target_of(
    frame: pd.DataFrame,
    target: str,
    letters: pd.Series[Any],
    *,
    kind: str | None,
    event: str | None,
    levels: Sequence[str] | None,
    positive: str | None,
) -> Target:
    """Read the target of a table.

    :param letters: the target as it is written, whose letters labels have.
    :raises WrongUse: for a target that does not fit its kind, and options of another kind.
    """
    column, name = frame[target], f"--target {target!r}"
    if event is None and kind in (None, "classifier", "ordinal"):
        labels = _letters_in_order(column, letters)
        if labels and (kind or levels or len(labels) == 2):
            column = letters.where(column.notna())
            if kind == "ordinal":
                levels = levels or [list_of(labels)]
            elif levels is None:
                positive = positive or labels[-1]
    with blamed():
        values = target_column(name, column)
        kind = kind or _inferred(column, event, levels)
        of_kind = {"--event": "survival", "--levels": "ordinal", "--positive": "classifier"}
        for option, given in (("--event", event), ("--levels", levels), ("--positive", positive)):
            if given is not None and of_kind[option] != kind:
                raise WrongUse(f"{option} is for --kind {of_kind[option]}, and this one is {kind}")
        if kind == "classifier":
            return Target(kind, values, {"positive": _positive(target, values, positive)})
        if kind == "ordinal":
            order = _levels(column, values, levels)
            with blamed("--levels"):
                classes = levels_in_order(None, order)
            assert classes is not None
            places_of(values, classes, name, "--levels")
            return Target(kind, values, {"levels": order})
        if kind != "survival":
            return Target(kind, target_numbers(name, values), {})
        if event is None:
            raise WrongUse(
                "--kind survival needs --event, the column that says whether the event came at the "
                "time in --target (1) or not by then (0)"
            )
        y, codes = times_of(frame, target, event)
        return Target(kind, y, {}, codes)


def times_of(
    frame: pd.DataFrame, target: str, event: str, codes: Codes | None = None
) -> tuple[npt.NDArray[Any], Codes | None]:
    """Events and times, from two columns, as a structured array; and what numbers say of events.

    :param codes: how numbers say whether an event came, as they did in fit; None if not known.
    :raises WrongUse: for impossible times and events.
    """
    name = f"--event {event!r}"
    with blamed():
        time = target_numbers(f"--target {target!r}", frame[target])
        came, codes = came_of(name, target_column(name, frame[event]), codes)
    with blamed(f"--target {target!r}"):
        SurvivalTimes.right_censored(time, came)
    both = np.empty(len(time), dtype=[("event", bool), ("time", np.float64)])
    both["event"], both["time"] = came, time
    return both, codes


def _letters_in_order(values: pd.Series[Any], letters: pd.Series[Any]) -> list[str]:
    """The different fields of a column of numbers or booleans, in the order of their values.

    :param letters: the fields, as text where they are not written as Python writes the values.
    :returns: none if they are, and where two fields have the same value.
    """
    if type_of(values).startswith("text") or not type_of(letters).startswith("text"):
        return []
    pairs = pd.DataFrame({"value": values, "field": letters}).dropna().drop_duplicates()
    pairs = pairs.sort_values("value")
    return [] if pairs["value"].duplicated().any() else pairs["field"].tolist()


def _inferred(column: pd.Series[Any], event: str | None, levels: Sequence[str] | None) -> str:
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
    hint = "; ordered levels need --levels, such as --levels low,medium,high"
    if count < 2:
        hint = "; --kind regressor fits any numbers" if "number" in kind else ""
    raise WrongUse(
        f"--target {column.name!r} must have two values, or numbers, and has {what}{hint}"
    )


def _texts(values: Any) -> list[str]:
    """The different values of a column, sorted, as text."""
    return sorted({str(value) for value in values})


def _as_value(text: str, values: npt.NDArray[Any]) -> Any:
    """A value in an option as it would be in a column; text as it is if the column has no such."""
    if values.dtype.kind == "b":
        return {"true": True, "false": False}.get(text.lower(), text)
    for number in (int, float) if values.dtype.kind in "iuf" else ():
        with suppress(ValueError):
            if math.isfinite(value := number(text)):
                return value
    return text


def _positive(target: str, values: npt.NDArray[Any], positive: str | None) -> Any:
    """The positive class, None where the option does not name it."""
    classes = np.unique(values).tolist()
    if len(classes) != 2:
        raise WrongUse(
            f"--target {target!r} of a classifier must have two values, and has "
            f"{len(classes)}: {listed(_texts(classes))}"
        )
    label = None if positive is None else _as_value(positive, values)
    if label is not None and label not in classes:
        raise WrongUse(f"--positive must be {' or '.join(map(_quoted, classes))}, got {positive!r}")
    return label


def _quoted(label: Any) -> str:
    return repr(str(label))


def _levels(
    column: pd.Series[Any], values: npt.NDArray[Any], levels: Sequence[str] | None
) -> list[Any]:
    """All levels: in the order of the option, of the type, or of numbers."""
    are_text = values.dtype.kind not in "biuf"
    if levels is not None:
        order = [_as_value(part, values) for part in parts_of(levels, _texts(values))]
        strange = [level for level in order if isinstance(level, str)]
        if strange and not are_text:
            raise WrongUse(f"--levels must be values of {column.name!r}, got {strange[0]!r}")
        return order
    if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
        return list(column.dtype.categories)
    if are_text:
        raise WrongUse(
            "--kind ordinal needs --levels for text, such as --levels "
            f"{as_argument(*_texts(values))}, in the order from the lowest to the highest"
        )
    return list(np.unique(values).tolist())


@dataclass(frozen=True)
class Outcomes:
    """Rows as a model reads them, and what came of them.

    :param X: columns of the model.
    :param y: as `score` of the estimator takes it; None where the table does not have it.
    :param target: name of the column; `event`: what happens, of a survival model.
    :param lacks: why there is no y, in words; empty where there is one.
    """

    X: pd.DataFrame
    y: Any
    target: str
    event: str
    lacks: str = ""


def outcomes_of(
    model: SavedModel, data: Path, *, target: str | None, event: str | None
) -> Outcomes:
    """Read the rows of a table and what came of them.

    :param target: column that must be there; by default the one of fit, which may be missing.
    :param event: likewise, of a survival model. Where one is given, both are needed.
    :raises WrongUse: for rows that do not fit the model, and for outcomes that it cannot have.
    """
    survival, asked = model.kind == "survival", target is not None or event is not None
    if event is not None and not survival:
        raise WrongUse(f"--event is for survival models, and this one is a {model.kind}")
    target, event = target or model.notes.get("target"), event or model.notes.get("event")
    of_text = [target] if target and isinstance(next(iter(model.labels), None), str) else []
    frame, lacks = model.table(data, of_text), ""
    for option, name in {"--target": target, **({"--event": event} if survival else {})}.items():
        if name in frame:
            continue
        if asked and name is None:
            raise WrongUse(f"{option} must be given: the model does not know its column")
        if asked:
            column_of(option, str(name), list(frame.columns), str(data))
        why = "the model does not know its column of " + option if name is None else ""
        lacks = lacks or why or f"{data} has no column {name!r}"
    y = None
    if not lacks and survival:
        y, _ = times_of(frame, str(target), str(event), model.estimator.event_codes_)
    elif not lacks:
        with blamed():
            y = read_by(model.estimator, frame[target], f"--target {target!r}")
    happens = "the event" if event is None else f"the event “{event}”"
    return Outcomes(frame[model.names], y, target or "y", happens, lacks)
