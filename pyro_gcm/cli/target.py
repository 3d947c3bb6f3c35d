"""The target column of a table: which kind of model it needs, and the outcomes of rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.cli.columns import column_of, type_of
from pyro_gcm.cli.options import as_argument, list_of, parts_of
from pyro_gcm.cli.output import WrongUse, blamed, instead, listed
from pyro_gcm.cli.saved import SavedModel
from pyro_gcm.cli.tables import Reading
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.estimators.event_times import came_of, first_causes
from pyro_gcm.estimators.kinds import outcomes_of as read_by
from pyro_gcm.estimators.targets import (
    levels_in_order,
    places_of,
    refuse_exposures,
    target_column,
    target_numbers,
)

#: The kinds of options that are not for all.
_OF_KIND: dict[str, tuple[str, ...]] = {"levels": ("ordinal",), "exposure": ("count",)}
_OF_KIND |= dict.fromkeys(("event", "horizon"), ("survival", "competing"))
_OF_KIND |= {"positive": ("classifier", "competing"), "concave": ("classifier",)}


class Target(NamedTuple):
    """The outcomes that a model is fitted to.

    :param kind: one of `estimators.kinds.KINDS`.
    :param y: as `fit` of the estimator takes it, [n].
    :param options: of the estimator: the levels in their order, or the positive class or cause.
    """

    kind: str
    y: Any
    options: dict[str, Any]

    @property
    def classes(self) -> list[Any]:
        """Those of a classifier, or causes, sorted."""
        if self.kind == "competing":
            return [*first_causes(self.y)]
        return np.unique(self.y).tolist() if self.kind == "classifier" else []

    def directions(
        self, target: str, columns: dict[str, int], by_class: Mapping[str, dict[str, int]]
    ) -> dict[Any, Any]:
        """The directions as the estimator takes them: of columns, or of columns for classes.

        :param columns: of all columns that have one; `by_class`: those that name a class.
        :raises WrongUse: for one without a class of three or more, and for one with a class of two.
        """
        one, classes = next(iter(by_class), None), self.classes
        competing = self.kind == "competing"
        if len(classes) < 3 and not competing:
            if one is not None:
                raise WrongUse(
                    f"directions such as {one}:{next(iter(by_class[one]))} are for a --target of "
                    f"three or more classes, and {target!r} has {listed(_texts(self.y))}: name the "
                    "column alone, and the event by --positive"
                )
            return columns
        what = "cause" if competing else "class"
        named = {name for own in by_class.values() for name in own}
        if alone := [name for name in columns if name not in named]:
            raise WrongUse(
                f"--increasing and --decreasing must say for which {what} of {target!r}, as in "
                f"{classes[0]}:{alone[0]}, got {alone[0]!r}"
            )
        found: dict[Any, Any] = {**by_class}
        if not competing:
            found = {_as_value(label, np.asarray(self.y)): own for label, own in found.items()}
        if unknown := [label for label in found if label not in classes]:
            texts = _texts(classes)
            raise WrongUse(
                f"--increasing and --decreasing name the {what} {str(unknown[0])!r}, and "
                f"{target!r} has no such value{instead(str(unknown[0]), texts)}"
            )
        return found

    def about_event(self, target: str, directions: Sequence[str]) -> str:
        """Which class is the event, and how frequent it is; with a warning if nobody said so.

        :param directions: columns that have one.
        """
        if self.kind == "competing":
            causes, cause = self.classes, self.options["cause"]
            about = f"causes in {target}: {listed(causes)}; predictions are about "
            return f"{about}{cause or causes[0]}, see --positive"
        (first, *others, last), given = self.classes, self.options["positive"]
        event = last if given is None else given
        if others:
            return (
                f"classes of {target}: {listed(_texts(self.classes))}; of {event} are questions "
                "such as required, see --positive"
            )
        about = f"event: {target} = {event} ({100 * (self.y == event).mean():.1f} %)"
        if not directions:
            return about
        if given is None and isinstance(last, str):
            warnings.warn(
                f"directions are about {target} = {last}, the last label in order: say so by "
                f"--positive {quote(last)}, or --positive {quote(first)} for the other one",
                stacklevel=1,
            )
        return f"{about}; raising a column with direction + raises its probability"


def target_of(
    frame: pd.DataFrame,
    target: str,
    letters: pd.Series[Any],
    kind: str | None,
    asked: Mapping[str, Any],
) -> Target:
    """Read the target of a table.

    :param letters: the target as it is written, whose letters labels have.
    :param asked: the options of a kind, None where they are not given.
    :raises WrongUse: for a target that does not fit its kind, and options of another kind.
    """
    column, name = frame[target], f"--target {target!r}"
    event, levels, positive = asked["event"], asked["levels"], asked["positive"]
    of_numbers = event is not None or asked["exposure"] is not None
    if not of_numbers and kind in (None, "classifier", "ordinal"):
        fields = _fields_in_order(column, letters)
        if fields and (kind or levels or len(fields) == 2):
            column = letters.where(column.notna())
            if kind == "ordinal":
                levels = levels or [list_of(fields)]
            elif levels is None:
                positive = positive or fields[-1]
    with blamed():
        values = target_column(name, column)
        kind = kind or ("count" if asked["exposure"] else _inferred(column, event, levels))
        for option, kinds in _OF_KIND.items():
            if asked[option] is not None and kind not in kinds:
                wanted = " or ".join(kinds)
                raise WrongUse(f"--{option} is for --kind {wanted}, and this one is {kind}")
        if kind == "classifier":
            classes = np.unique(values).tolist()
            label = None if positive is None else _as_value(positive, values)
            if len(classes) < 2:
                raise WrongUse(
                    f"{name} must have two values or more for --kind classifier, and has "
                    f"{listed(_texts(classes))}"
                )
            if label is not None and label not in classes:
                values_are = instead(positive, _texts(classes))
                raise WrongUse(f"--positive: {name} has no value {positive!r}{values_are}")
            if (concave := asked["concave"]) and len(classes) > 2:
                raise WrongUse(f"--concave is for two classes, and {name} has {len(classes)}")
            return Target(kind, values, {"positive": label, "concave": concave})
        if kind == "ordinal":
            order = None if levels is None else _order_of(name, levels, values)
            if order is None and values.dtype.kind in "US" and not type_of(column)[:7] == "ordered":
                raise WrongUse(
                    "--kind ordinal needs --levels for text, such as --levels "
                    f"{as_argument(*_texts(values))}, in the order from the lowest to the highest"
                )
            known = levels_in_order(column, order)
            places_of(values, np.unique(values) if known is None else known, name, "--levels")
            return Target(kind, column, {"levels": order})
        if kind == "count":
            counts, exposure = target_numbers(name, values), asked["exposure"]
            if exposure is not None:
                over = target_numbers(f"--exposure {exposure!r}", frame[exposure])
                refuse_exposures(f"--exposure {exposure!r}", over)
            return Target(kind, counts, {"exposure": exposure})
        if kind not in ("survival", "competing"):
            response = {"response": kind} if kind == "distribution" else {}
            return Target(kind, target_numbers(name, values), response)
        if event is None:
            raise WrongUse(
                f"--kind {kind} needs --event, the column that says whether the event occurred, or "
                "which cause came, at the time in --target (1) or none by then (0)"
            )
        times = _times_of(frame, target, event, kind)
        options = {"horizon": asked["horizon"]}
        if kind == "competing":
            causes = [*first_causes(times)]
            if positive is not None and positive not in causes:
                of = f"--event {event!r} has no cause {positive!r}{instead(positive, causes)}"
                raise WrongUse(f"--positive: {of}")
            options["cause"] = positive
        return Target(kind, times, options)


def _times_of(frame: pd.DataFrame, target: str, event: str, kind: str) -> Any:
    """Times of events, from two columns: `SurvivalTimes`, or an array of causes and times."""
    name = f"--event {event!r}"
    with blamed():
        time = target_numbers(f"--target {target!r}", frame[target])
        if kind == "competing":
            found = np.empty(len(frame), [("cause", object), ("time", float)])
            found["cause"], found["time"] = frame[event].astype(object), time
            return found
        came = came_of(name, target_column(name, frame[event]))
    with blamed(f"--target {target!r}"):
        return SurvivalTimes.right_censored(time, came)


def _fields_in_order(values: pd.Series[Any], letters: pd.Series[Any]) -> list[str]:
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
    hint = (
        "; ordered levels need --levels, such as --levels low,medium,high, and classes without an "
        "order --kind classifier"
    )
    if count < 2:
        hint = "; --kind regressor fits any numbers" if "number" in kind else ""
    raise WrongUse(
        f"--target {column.name!r} must have two values, or numbers, and has {count} "
        f"{'value' if count == 1 else 'values'} ({listed(_texts(column))}){hint}"
    )


def _texts(values: Any) -> list[str]:
    """The different values of a column, sorted, as text."""
    return sorted({str(value) for value in values})


def _as_value(text: str, values: npt.NDArray[Any]) -> Any:
    """A value in an option as it would be in a column; text as it is if the column has no such."""
    if values.dtype.kind == "b":
        return {"true": True, "false": False}.get(text.lower(), text)
    number = Reading().number(text) if values.dtype.kind in "iuf" else None
    return text if number is None or math.isinf(number) else number


def _order_of(name: str, levels: Sequence[str], values: npt.NDArray[Any]) -> list[Any]:
    """The levels that the option names, as values of the column."""
    order = [_as_value(part, values) for part in parts_of(levels, _texts(values))]
    strange = [level for level in order if isinstance(level, str)]
    if strange and values.dtype.kind in "biuf":
        raise WrongUse(f"--levels must be values of {name.split()[1]}, got {strange[0]!r}")
    return order


class Outcomes(NamedTuple):
    """Rows as a model reads them, and their outcomes.

    :param X: columns of the model.
    :param y: as `score` of the estimator takes it; None where the table does not have it.
    :param target: name of the column; `event`: what happens, of a survival model.
    :param lacks: why there is no y, in words; empty where there is one.
    :param by: labels of groups, or None.
    """

    X: pd.DataFrame
    y: Any
    target: str
    event: str
    lacks: str = ""
    by: pd.Series[Any] | None = None

    def take(self, rows: npt.NDArray[np.bool_]) -> Outcomes:
        """Some of the rows."""
        y = None if self.y is None else self.y[rows]
        by = None if self.by is None else self.by[rows]
        return self._replace(X=self.X[rows], y=y, by=by)


def outcomes_of(
    model: SavedModel,
    data: Path,
    *,
    target: str | None = None,
    event: str | None = None,
    by: str | None = None,
) -> Outcomes:
    """Read the rows of a table and their outcomes.

    :param by: column with labels of groups.
    :param target: column that must be there; by default the one of fit, which may be missing.
    :param event: likewise, of a survival model. Where one is given, both are needed.
    :raises WrongUse: for rows that do not fit the model, and for outcomes that it cannot have.
    """
    survival = model.kind in ("survival", "competing")
    asked = target is not None or event is not None
    if event is not None and not survival:
        raise WrongUse(f"--event is for survival models, and this one is a {model.kind}")
    target, event = target or model.notes.get("target"), event or model.notes.get("event")
    is_text = isinstance(next(iter(model.labels), None), str) and not survival
    of_text = [target] if target and is_text else []
    frame, y, lacks = model.table(data, of_text), None, ""
    wanted = {"--target": target, "--event": event} if survival else {"--target": target}
    if missing := [option for option, name in wanted.items() if name not in frame]:
        option, name = missing[0], wanted[missing[0]]
        lacks = f"{data} has no column {name!r}" if name else f"{option} names no column"
        if asked:
            raise WrongUse(f"{option}: {lacks}{instead(str(name), list(frame.columns))}")
    elif survival:
        y = _times_of(frame, str(target), str(event), model.kind)
    else:
        with blamed():
            y = read_by(model.estimator, frame[target], f"--target {target!r}")
    happens = "the event" if event is None else f"the event “{event}”"
    groups = None if by is None else frame[column_of("--by", by, list(frame.columns), str(data))]
    exposure = getattr(model.estimator, "exposure", None)
    names = [*model.names, *([exposure] if exposure in frame else [])]
    return Outcomes(frame[names], y, target or "y", happens, lacks, groups)
