"""The target column of a table: which kind of model it needs, and what came of the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm import estimators
from pyro_gcm.cli.columns import column_of, type_of
from pyro_gcm.cli.errors import WrongUse, blamed, listed
from pyro_gcm.cli.lists import as_argument, parts_of
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
        self, share: float | None, seed: int
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The rows to fit to, and those held out; both have both classes of a classifier."""
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
        from sklearn.model_selection import train_test_split

        with blamed("--test-share"):
            parts = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
        train, test = map(np.sort, parts)
        return train, test


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
    column, name = frame[target], f"--target {target!r}"
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
    found = np.empty(len(time), dtype=[("event", bool), ("time", np.float64)])
    found["event"], found["time"] = came, time
    return found, codes


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
    hint = "; ordered levels need --levels, such as --levels low,medium,high"
    if count < 2:
        hint = "; --kind regressor fits any numbers" if "number" in kind else ""
    raise WrongUse(
        f"--target {column.name!r} must have two values, or numbers, and has {what}{hint}"
    )


def _texts(values: Any) -> list[str]:
    """The different values of a column, sorted, as text."""
    return sorted({str(value) for value in values})


def _as_written(text: str, values: npt.NDArray[Any]) -> Any:
    """A value in an option as it would be in a column; text as it is if the column has no such."""
    if values.dtype.kind == "b":
        return {"true": True, "false": False}.get(text.lower(), text)
    if values.dtype.kind in "iuf":
        try:
            number = Decimal(text)
            whole = abs(number) < 2**64 and number == int(number)
            return int(number) if whole else float(number)
        except (ArithmeticError, ValueError):
            return text
    return text


def _positive(target: str, values: npt.NDArray[Any], positive: str | None) -> Any:
    """The positive class, None where the option does not name it."""
    classes = np.unique(values).tolist()
    if len(classes) != 2:
        raise WrongUse(
            f"--target {target!r} of a classifier must have two values, and has "
            f"{len(classes)}: {listed(_texts(classes))}"
        )
    label = None if positive is None else _as_written(positive, values)
    if label is not None and label not in classes:
        texts = [str(each) for each in classes]
        raise WrongUse(f"--positive must be {texts[0]!r} or {texts[1]!r}, got {positive!r}")
    return label


def _levels(column: pd.Series[Any], values: npt.NDArray[Any], levels: str | None) -> list[Any]:
    """All levels: in the order of the option, of the type, or of numbers."""
    are_text = values.dtype.kind not in "biuf"
    if levels is not None:
        order = [_as_written(part, values) for part in parts_of(levels, _texts(values))]
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
    found: list[Any] = np.unique(values).tolist()
    return found


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
    if event is not None and model.kind != "survival":
        raise WrongUse(f"--event is for survival models, and this one is a {model.kind}")
    y_name, event_name = (
        given or model.notes.get(name) for name, given in (("target", target), ("event", event))
    )
    are_texts = hasattr(model.estimator, "classes_") and isinstance(model.labels[0], str)
    frame = model.table(data, [y_name] if are_texts and y_name else []).frame
    wanted = {"--target": y_name}
    if model.kind == "survival":
        wanted["--event"] = event_name
    y, lacks = None, ""
    for option, name in wanted.items():
        if name in frame:
            continue
        if target is not None or event is not None:
            if name is None:
                raise WrongUse(f"{option} must be given: the model does not know its column")
            column_of(option, name, list(frame.columns), str(data))
        lacks = lacks or (
            f"the model does not know its column of {option}"
            if name is None
            else f"{data} has no column {name!r}"
        )
    if y_name is not None and not lacks:
        if model.kind == "survival":
            y, _ = times_of(frame, y_name, str(event_name), model.estimator.event_codes_)
        else:
            y = _read(model, frame[y_name])
    return Outcomes(frame[model.names], y, y_name or "y", _name(event_name), lacks)


def _read(model: SavedModel, column: pd.Series[Any]) -> npt.NDArray[Any]:
    """Labels or numbers of a column as the estimator has them."""
    name = f"--target {column.name!r}"
    with blamed():
        found: npt.NDArray[Any] = read_by(model.estimator, column, name)
    return found


def _name(event: str | None) -> str:
    return "the event" if event is None else f"the event “{event}”"
