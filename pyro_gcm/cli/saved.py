"""A saved model, what the command line knows of it, and the rows of a table as it reads them."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import pyro_gcm
from pyro_gcm._utils.validation import LARGEST
from pyro_gcm.cli.columns import column_of, columns_of, for_classes
from pyro_gcm.cli.options import parts_of
from pyro_gcm.cli.output import WrongUse, blamed, listed
from pyro_gcm.cli.tables import Reading, as_written, read_table
from pyro_gcm.estimators.classes import directions_of_classes
from pyro_gcm.estimators.kinds import kind_of
from pyro_gcm.io import read_card
from pyro_gcm.report import profile_of

#: Where the card of a folder has what only the command line knows.
NOTES = "table"
#: Where it has what is known of the rows of fit: the profile of those that it was fitted to, and
#: a number for each that it was not.
ROWS = "rows_of_fit"
#: Values of a range, at most.
_MOST = 100_000


class SavedModel:
    """A model of a folder, what it is and how it reads tables.

    :param estimator: as `pyro_gcm.load` returns it.
    :param card: what the folder says of it.

    Attributes: `facts`, as `facts_of` returns them, with `kind` and `labels`; `notes`, what `fit`
    put into the card, which are empty for a folder that was saved in Python; `reading`, how the
    fields of tables were read in fit; `codes`, how each column is read, by its name; `directions`
    of those that have one.
    """

    def __init__(self, folder: Path, estimator: Any, card: dict[str, Any]) -> None:
        self.folder, self.estimator, self.card = folder, estimator, card
        self.facts, self.notes = facts_of(estimator), dict(card["metrics"].get(NOTES, {}))
        self.kind, self.labels = self.facts["kind"], self.facts.get("labels", [])
        self.reading = Reading(**self.notes.get("reading", {}))
        codes = estimator.encoding_.columns
        names = getattr(estimator, "feature_names_in_", [code.label for code in codes])
        self.codes: dict[str, Any] = dict(zip(map(str, names), codes, strict=True))
        self.names = [*self.codes]
        signs = zip(self.names, estimator.directions_, strict=True)
        self.directions = {name: sign for name, sign in signs if sign}

    def direction(self, name: str) -> str:
        """That of a column, in a word; of three or more classes one for each, as in "bus -"."""
        if self.kind != "competing" and (len(self.labels) < 3 or self.kind != "classifier"):
            word = {1: "increasing", -1: "decreasing", 0: "free"}[self.codes[name].sign]
            return f"{word}, concave" if self.codes[name].from_zero else word
        return for_classes(name, directions_of_classes(self.estimator)) or "free"

    def answering(self) -> SavedModel:
        """Return the model, if it is strictly monotone and so has answers to questions."""
        if not hasattr(self.estimator, "required"):
            kind = type(self.estimator).__name__
            raise WrongUse(f"MODEL must be a GCM for this command, and {self.folder} has {kind}")
        return self

    def column(self, column: str, *, directed: bool = False) -> str:
        """The name of a column, as the model has it.

        :param column: in any normal form of Unicode.
        :param directed: whether it must have a direction.
        :raises WrongUse: for another column.
        """
        name = column_of("--column", column, self.names, f"MODEL {self.folder}")
        if directed and name not in self.directions:
            these = listed([*self.directions])
            raise WrongUse(f"--column must have a direction (these have: {these}), got {name!r}")
        return name

    def grid(self, column: str, values: Sequence[str] | None) -> list[Any] | None:
        """The values of a column that `--values` names; None without values.

        :raises WrongUse: for values that it cannot have.
        """
        code = self.codes[column]
        if values is None:
            return None
        if code.kind != "number":
            of_text = {str(level).removesuffix(".0"): level for level in code.seen}
            names = parts_of(values, of_text)
            if unknown := [name for name in names if name not in of_text]:
                raise WrongUse(f"--values must be among {listed([*of_text])}, got {unknown[0]!r}")
            return [of_text[name] for name in names]
        text = ",".join(values)
        with suppress(ValueError):
            numbers = [float(part) for part in re.split("[:,]", text)]
            if ":" in text:
                low, high, count = numbers
                steps = int(count) if count in range(2, _MOST + 1) else 0
                numbers = np.linspace(low, high, steps).tolist()
            if numbers and all(abs(number) <= LARGEST for number in numbers):
                return numbers
        raise WrongUse(
            f"--values must be numbers of at most {LARGEST:.0e} in size, such as 1,2,5, or "
            f"low:high:count, such as 0:100:11, got {text!r}"
        )

    def table(self, data: Path, text: Collection[str] = ()) -> pd.DataFrame:
        """The table in a file, with the columns that the model reads, as they were in fit.

        A warning counts the values of categories that fit did not see.

        :param text: other columns that are text even where all their values are digits.
        :raises WrongUse: for a file that cannot be read, and a column that is missing or of another
            type than in fit.
        """
        if not hasattr(self.estimator, "feature_names_in_"):
            raise WrongUse(f"MODEL {self.folder} was fitted to an array, without names of columns")
        levels = {name: code.seen for name, code in self.codes.items()}
        were_text = [name for name in levels if any(isinstance(v, str) for v in levels[name])]
        frame = read_table(data, self.reading, [*were_text, *text])
        for name in levels:
            column_of("DATA", name, list(frame.columns), str(data))
        with blamed(f"DATA {data}"):
            self.estimator.as_read(frame[self.names])
        # Of parts of these rows nothing more is to be said.
        warnings.filterwarnings("ignore", "column .* what fit never", UserWarning)
        return frame

    @property
    def profile(self) -> dict[str, Any]:
        """How often the training rows had which values; empty for a model saved in Python."""
        found: dict[str, Any] = self.card["metrics"].get(ROWS, {}).get("profile", {})
        return found

    def held_out(self, X: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Whether rows are those that fit held out, [n]."""
        kept = self.card["metrics"].get(ROWS, {}).get("held_out", "")
        known = np.frombuffer(base64.b64decode(kept), np.uint64)
        return np.isin(_digests(self.estimator.as_read(X)), known)

    def rows(
        self, data: Path, keep: Sequence[str] | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The columns that the model reads of a table, and those to be copied, as they are written.

        :raises WrongUse: as `table`, and for columns that are not there.
        """
        frame = self.table(data)
        kept = dict.fromkeys(columns_of("--keep", keep, list(frame.columns), str(data)))
        names = dict.fromkeys([*self.names, getattr(self.estimator, "exposure", None)])
        return frame[[name for name in names if name in frame]], as_written(data, frame, [*kept])


def about_rows(
    X: pd.DataFrame, train: npt.NDArray[np.intp], test: npt.NDArray[np.intp]
) -> dict[str, Any]:
    """What a card keeps of the rows of fit, as its estimator reads them.

    A row that is held out and has the values of one that is not counts as seen.
    """
    digests = _digests(X)
    kept = np.setdiff1d(digests[test], digests[train])
    return {
        "held_out": base64.b64encode(kept.tobytes()).decode(),
        "profile": profile_of(X.iloc[train]),
    }


def _digests(X: pd.DataFrame) -> npt.NDArray[np.integer[Any]]:
    """A number for each row, by its values."""
    numbers = dict.fromkeys(X.select_dtypes(["number", "bool"]), "float64")
    return pd.util.hash_pandas_object(X.astype(object).astype(numbers), index=False).to_numpy()


def facts_of(estimator: Any) -> dict[str, Any]:
    """The kind of an estimator, its classes, levels or causes, and the event of predictions."""
    kind, classes = kind_of(estimator.response), getattr(estimator, "classes_", None)
    labels = {} if classes is None else {"labels": classes.tolist()}
    if kind == "classifier":
        labels["positive"] = labels["labels"][estimator.event_column_]
    if kind == "competing":
        labels = {"labels": estimator.causes_, "positive": estimator.causes_[0]}
    return {"kind": kind, **labels}


def open_model(folder: Path) -> SavedModel:
    """Load the model in a folder.

    :raises WrongUse: for a folder that is not there, damaged, or without a model of tables.
    """
    with blamed("MODEL"):
        card, estimator = read_card(folder), pyro_gcm.load(folder)
    if not hasattr(estimator, "encoding_"):
        raise WrongUse(f"MODEL must be an estimator of tables, and {folder} has {card['class']}")
    return SavedModel(folder, estimator, card)
