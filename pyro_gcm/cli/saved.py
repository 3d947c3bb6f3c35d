"""A saved model, what the command line knows of it, and the rows of a table as it reads them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pyro_gcm
from pyro_gcm import estimators
from pyro_gcm._utils.files import undamaged
from pyro_gcm._utils.validation import LARGEST
from pyro_gcm.cli.columns import column_of, columns_of, type_of
from pyro_gcm.cli.errors import WrongUse, blamed, listed
from pyro_gcm.cli.lists import parts_of
from pyro_gcm.cli.options import numbers
from pyro_gcm.cli.reading import Reading
from pyro_gcm.cli.tables import as_written, read_table
from pyro_gcm.estimators.kinds import KINDS
from pyro_gcm.estimators.kinds import kind_of as kind_of_response
from pyro_gcm.io import read_card

#: Where the card of a folder has what only the command line knows.
NOTES = "table"
_EXAMPLE = "0:100:11 or 1,2,5"
#: Values of a range, at most.
_MOST = 100_000


@dataclass(frozen=True)
class SavedModel:
    """A model of a folder.

    :param estimator: as `pyro_gcm.load` returns it.
    :param kind: classifier, regressor, distribution, ordinal or survival.
    :param notes: what `fit` put into the card; empty for a folder that was saved in Python.
    :param names: of the columns that it reads, in their order.
    """

    folder: Path
    estimator: Any
    kind: str
    notes: dict[str, Any]
    names: list[str]

    @property
    def codes(self) -> dict[str, Any]:
        """How each column is read."""
        return dict(zip(self.names, self.estimator.encoding_.columns, strict=True))

    @property
    def directions(self) -> dict[str, int]:
        """+1 or -1 of each constrained column."""
        return {name: code.sign for name, code in self.codes.items() if code.sign}

    @property
    def labels(self) -> list[Any]:
        """The classes of the estimator as Python has them; none of one without classes."""
        found: list[Any] = getattr(self.estimator, "classes_", np.empty(0)).tolist()
        return found

    @property
    def prediction_name(self) -> str:
        """The name of the one monotone prediction of a row."""
        target = self.notes.get("target", "the target")
        if self.kind == "classifier":
            return f"probability that {target} is {self.labels[self.estimator.event_column_]}"
        if self.kind == "ordinal":
            return f"mean place of {target}, from 0 to {len(self.labels) - 1}"
        if self.kind == "survival":
            return f"probability of the event by {self.notes.get('horizon', 'the horizon')}"
        return f"mean of {target}"

    def constrained(self, column: str) -> Any:
        """How a column with a direction is read.

        :raises WrongUse: for another one.
        """
        column_of("--column", column, self.names, f"the model in {self.folder}")
        if column not in self.directions:
            raise WrongUse(
                f"--column must have a direction in the model, one of {listed([*self.directions])},"
                f" got {column!r}, which is free"
            )
        return self.codes[column]

    def answering(self) -> SavedModel:
        """Return the model, if it is strictly monotone and so has answers to questions."""
        if not hasattr(self.estimator, "required"):
            raise WrongUse(
                f"MODEL must be a GCM for this command, and {self.folder} has "
                f"{type(self.estimator).__name__}, whose predictions may fall"
            )
        return self

    def grid(self, column: str, values: Sequence[str] | None) -> list[Any] | None:
        """The values that `--values` names of a column with a direction, or None without them."""
        code = self.constrained(column)
        return None if values is None else values_of(values, code)

    def table(self, data: Path, text: Collection[str] = ()) -> pd.DataFrame:
        """The table in a file, with the columns that the model reads, as they were in fit.

        A warning counts the values of categories that fit did not see.

        :param text: other columns that are text even where all their values are digits.
        :raises WrongUse: for a file that cannot be read, and a column that is missing or of another
            type than in fit.
        """
        codes = self.codes
        were_text = [n for n, c in codes.items() if any(isinstance(v, str) for v in c.levels)]
        frame = read_table(data, reading_of(self.notes), [*were_text, *text])
        for name in codes:
            column_of("DATA", name, list(frame.columns), str(data))
        for name, code in codes.items():
            if code.kind == "number":
                _check_numbers(frame[name], data)
            else:
                _count_unknown(frame[name], code, data)
        with blamed(f"DATA {data}"):
            self.estimator.as_read(frame[self.names])
        return frame

    def rows(
        self, data: Path, keep: Sequence[str] | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The columns that the model reads of a table, and those to be copied, as they are written.

        :raises WrongUse: as `table`, and for columns that are not there.
        """
        frame = self.table(data)
        kept = dict.fromkeys(columns_of("--keep", keep, list(frame.columns), str(data)))
        return frame[self.names], as_written(data, frame, [*kept], reading_of(self.notes))


def _check_numbers(series: pd.Series[Any], data: Path) -> None:
    """Refuse text in a column that had numbers in fit, with the first one."""
    if type_of(series).startswith(("text", "other")):
        strange = pd.to_numeric(series, errors="coerce").isna() & series.notna()
        row = int(strange.to_numpy().argmax())
        raise WrongUse(
            f"DATA {data}: column {series.name!r} must have numbers, as in fit, got "
            f"{series.iloc[row]!r} in row {row + 1}"
        )


def _count_unknown(series: pd.Series[Any], code: Any, data: Path) -> None:
    """Warn of levels without a place of their own, where there are more of them than in fit."""
    unknown = series[~series.isin(code.levels) & series.notna()]
    expected = 2.0 * code.shares[len(code.levels)] if code.rare else 0.0
    if len(unknown) > expected * len(series):
        rare = " or rarely" if code.rare else ""
        warnings.warn(
            f"{data}: column {series.name!r} has in {len(unknown)} of {len(series)} rows what fit "
            f"never{rare} saw, such as {unknown.iloc[0]!r}",
            stacklevel=1,
        )


def open_model(folder: Path) -> SavedModel:
    """Load the model in a folder.

    :raises WrongUse: for a folder that is not there, damaged, or without a model of tables.
    """
    card = open_card(folder)
    with blamed("MODEL"):
        estimator = pyro_gcm.load(folder)
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    if not names:
        raise WrongUse(f"MODEL {folder} was fitted to an array, and its columns have no names")
    return SavedModel(folder, estimator, kind_of(card), notes_of(card), names)


def open_card(folder: Path) -> dict[str, Any]:
    """The card of a folder with a model of tables.

    :raises WrongUse: for a folder that is not there, damaged, or without such a model.
    """
    if not folder.is_dir():
        what = "a file" if folder.exists() else "not there"
        raise WrongUse(f"MODEL must be the folder of a model, and {folder} is {what}")
    with blamed("MODEL"):
        card = read_card(folder)
    known = [f"estimators.{name}" for kind in KINDS.values() for name in kind.classes]
    if card["class"] not in known:
        raise WrongUse(f"MODEL must be an estimator of tables, and {folder} has {card['class']}")
    with blamed("MODEL"), undamaged(f"{folder}: card.json"):
        kind_of(card)
        reading_of(notes_of(card))
    return card


def notes_of(card: dict[str, Any]) -> dict[str, Any]:
    """The notes of the command line on a model; empty for one that was saved in Python."""
    return dict(card["metrics"].get(NOTES, {}))


def reading_of(notes: dict[str, Any]) -> Reading:
    """How the fields of tables were read in fit."""
    noted = notes.get("reading", {})
    return Reading(**{**noted, "missing": tuple(noted.get("missing", ()))})


def kind_of(card: dict[str, Any]) -> str:
    """The kind of the model of a card."""
    options = card["architecture"]["data"]["options"]
    of_class = getattr(estimators, card["class"].removeprefix("estimators."))
    return kind_of_response(options.get("response", of_class.response))


def values_of(texts: Sequence[str], code: Any) -> list[Any]:
    """The values that `--values` names of a column.

    :param code: how the model reads the column.
    :raises WrongUse: for values that the column cannot have.
    """
    if code.kind != "number":
        of_text = {str(level).removesuffix(".0"): level for level in code.levels}
        names = parts_of(texts, of_text)
        unknown = [name for name in names if name not in of_text]
        if unknown:
            raise WrongUse(f"--values must be among {listed([*of_text])}, got {unknown[0]!r}")
        return [of_text[name] for name in names]
    text = ",".join(texts)
    found = _range(text) if ":" in text else numbers("--values", text, _EXAMPLE)
    if not all(abs(value) <= LARGEST for value in found):
        raise WrongUse(f"--values must be finite, and at most {LARGEST:.0e} in size, got {text!r}")
    return found


def _range(text: str) -> list[float]:
    """Equal steps from the first to the last value."""
    parts = text.split(":")
    count = parts[-1].strip()
    if len(parts) != 3 or not count.isdigit() or not 2 <= int(count) <= _MOST:
        raise WrongUse(
            f"--values must be low:high:count with a count of 2 to {_MOST:,}, such as 0:100:11, "
            f"got {text!r}"
        )
    low, high = numbers("--values", ",".join(parts[:2]), _EXAMPLE)
    found: list[float] = np.linspace(low, high, int(count)).tolist()
    return found
