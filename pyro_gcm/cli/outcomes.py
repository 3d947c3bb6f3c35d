"""What came of the rows of a table, where it has the target of a saved model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.cli.columns import column_of
from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.saved import SavedModel
from pyro_gcm.cli.target import times_of
from pyro_gcm.estimators.kinds import outcomes_of as read_by
from pyro_gcm.estimators.targets import places_of, target_column

if TYPE_CHECKING:
    import pandas as pd


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
    frame = model.table(data, [y_name] if are_texts and y_name else [])
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
        if "labels" in model.notes:  # what a folder of version 0.2 calls the classes
            values, known = target_column(name, column), np.array(model.labels)
            column = model.estimator.classes_[places_of(values, known, name, "those of fit")]
        found: npt.NDArray[Any] = read_by(model.estimator, column, name)
    return found


def _name(event: str | None) -> str:
    return "the event" if event is None else f"the event “{event}”"
