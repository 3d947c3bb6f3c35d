"""Three rows explained: what stands in the way, and what would change the answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.estimators.kinds import monotone_prediction
from pyro_gcm.estimators.moving import first_between
from pyro_gcm.report.content import Block, Heading, Paragraph, Section, Table
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, listed, percent, quoted

#: Which rows, as shares of all in the order of their predictions.
_PLACES = {
    "A row with a low prediction": 0.05,
    "A typical row": 0.5,
    "A row with a high prediction": 0.95,
}
#: Columns of a row that are listed, at most.
_MOST = 12


@dataclass(frozen=True)
class Asked:
    """The question that a report asks about its rows.

    :param event: the event whose outcome is explained, in words; `above`: what `explain` takes.
    :param opposite: the other outcome.
    :param level: the prediction that is to be reached.
    """

    event: str
    opposite: str
    above: Any
    level: float


def explained(subject: Subject) -> Section:
    """The section on three rows."""
    title = "Three rows explained"
    if not subject.directions or not subject.is_strict:
        why = (
            "No column has a direction"
            if not subject.directions
            else f"{type(subject.estimator).__name__} has no strict directions"
        )
        text = f"{why}, so the model cannot say which value would change an answer."
        return Section("rows-explained", title, [Paragraph(text, "note")])
    asked, words = _asked(subject), subject.words
    blocks: list[Block] = [
        Paragraph(
            f"The model sees behind each column with a direction a hidden cost: the value of the "
            f"column from which on {asked.event}, or below which if the prediction falls with it, "
            "all else as it is. It does not know the cost of a row, but says how likely each cost "
            "is, given the row and its more probable answer."
        ),
        Paragraph(
            "“Could turn it” is the probability that another value of this column alone, among "
            "those of the training rows, would have turned the answer. “Turning point” is the "
            "cost: the value at which the answer turns as likely before as after, with a range "
            f"that holds it with a probability of {percent(0.9)}. The last column has the value of "
            f"this column alone at which the {words.short} crosses {words.value(asked.level)}, the "
            "average of these rows."
        ),
    ]
    order = np.argsort(subject.predictions, kind="stable")
    rows = [int(order[round(share * (len(order) - 1))]) for share in _PLACES.values()]
    for name, row in zip(_PLACES, _told(subject, asked, rows), strict=True):
        blocks += _shown(subject, asked, name, row)
    blocks.append(
        Paragraph(
            "These are statements of the model about rows with other values, and not a promise "
            "of what happens when somebody changes them.",
            "note",
        )
    )
    return Section("rows-explained", title, blocks)


def _asked(subject: Subject) -> Asked:
    words, level = subject.words, subject.average
    target = quoted(words.target)
    if words.is_share:
        return Asked(words.happening, words.not_happening, None, level)
    if subject.kind == "ordinal":
        shares = subject.estimator.predict_cumulative(subject.X).mean(0)
        place = int(np.abs(shares - 0.5).argmin())
        event = f"{target} is above {quoted(words.labels[place])}"
        other = f"{target} is {quoted(words.labels[place])} or below"
        return Asked(event, other, subject.estimator.classes_.tolist()[place], level)
    middle = float(f"{np.median(subject.predictions):.3g}")
    event, other = f"{target} is above {amount(middle)}", f"{target} is at most {amount(middle)}"
    return Asked(event, other, middle, level)


@dataclass(frozen=True)
class Told:
    """The explanation of one row.

    :param at: its position; `columns`: a record of `explain` for each constrained column.
    :param band: its ends, or None.
    :param crossed: by column, the value at which the prediction crosses the level of `Asked`.
    """

    at: int
    columns: list[dict[str, Any]]
    band: tuple[float, float] | None
    crossed: dict[str, str]


def _told(subject: Subject, asked: Asked, rows: Sequence[int]) -> list[Told]:
    """Explain rows in one call of the model."""
    X, estimator = subject.X.iloc[list(rows)], subject.estimator
    options = {} if asked.above is None else {"above": asked.above}
    table = estimator.explain(X, **options)
    bands = estimator.predict_bands(X, subject.level) if subject.band_of else None
    needed = {name: _crossed(subject, X, name, asked.level) for name in subject.directions}
    found = []
    for place, at in enumerate(rows):
        columns = table[table["row"] == place].to_dict("records")
        band = None if bands is None else (float(bands.lower[place]), float(bands.upper[place]))
        crossed = {name: values[place] for name, values in needed.items()}
        found.append(Told(at, columns, band, crossed))
    return found


def _shown(subject: Subject, asked: Asked, name: str, row: Told) -> list[Block]:
    words, number = subject.words, f"{row.at + 1:,}"
    told = f"The {words.prediction} is {words.value(float(subject.predictions[row.at]))}"
    if row.band is not None:
        low, high = map(words.value, row.band)
        told += f"; at least {percent(subject.level)} of the {subject.band_of} say {low} to {high}"
    happens, p = bool(row.columns[0]["outcome"]), float(row.columns[0]["probability"])
    sure = percent(p if happens else 1.0 - p)
    told += f". The more probable answer is that {asked.event if happens else asked.opposite}, "
    told += f"with a probability of {sure}."
    given = [found for found in row.columns if not math.isnan(found["binding"])]
    if given:
        most = max(given, key=lambda found: found["binding"])
        verb = "What it rests on most is" if happens else "What stands most in the way is"
        told += (
            f" {verb} {quoted(most['feature'])}: another value of it alone could turn the answer "
            f"with a probability of {percent(most['binding'])}."
        )
    its = subject.X.iloc[row.at]
    given_in = {str(column): value for column, value in its.items()}
    rows = [
        [
            str(found["feature"]),
            amount(given_in[str(found["feature"])]),
            percent(found["binding"]) if found in given else "",
            _turning(subject, found) if found in given else "not asked, the value is missing",
            row.crossed[str(found["feature"])],
        ]
        for found in row.columns
    ]
    to = f"{words.value(asked.level)} crossed at"
    heads = ["Column", "Value", "Could turn it", "Turning point (range)", to]
    blocks: list[Block] = [Heading(f"{name}: row {number}"), Paragraph(told)]
    blocks.append(Table(f"Row {number}, column by column", heads, rows, (1, 2, 4)))
    free = [f"{c} {amount(value)}" for c, value in its.items() if str(c) not in subject.directions]
    if free:
        blocks.append(Paragraph(f"Its other columns: {listed(free, _MOST)}."))
    return blocks


def _turning(subject: Subject, found: dict[str, Any]) -> str:
    """The median of the cost and its range, in words where they are beyond the data."""
    if subject.is_boolean(str(found["feature"])):
        return _of_boolean(found["cost"])
    cost, low, high = (_place(found[name]) for name in ("cost", "lower", "upper"))
    return cost if cost == low == high else f"{cost} ({low} to {high})"


def _of_boolean(value: Any) -> str:
    """A turning point of a column that is true or false: numbers from 0 to 1 lie between them."""
    if pd.isna(value):
        return _place(value)
    return "between false and true" if 0 <= value <= 1 else _place(math.copysign(math.inf, value))


def _place(value: Any) -> str:
    if pd.isna(value):
        return "beyond the data"
    if isinstance(value, float) and math.isinf(value):
        return "above the data" if value > 0 else "below the data"
    return amount(value)


def _crossed(subject: Subject, rows: pd.DataFrame, feature: str, level: float) -> list[str]:
    """The value of one column at which the prediction of each row crosses a level."""
    place = [str(name) for name in subject.X].index(feature)
    estimator, name = subject.estimator, subject.X.columns[place]
    code = estimator.encoding_.columns[place]
    if code.kind == "number":

        def predict(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            moved = rows.copy()
            moved[name] = values
            return monotone_prediction(estimator, moved)

        values = first_between(predict, np.full(len(rows), level), code)
        told = _of_boolean if subject.is_boolean(feature) else amount
        return [told(value) if math.isfinite(value) else "no value" for value in values]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of levels beyond the data: the text says it
        found = estimator.required(rows, place, level)
    pairs = zip(found["required"], found["beyond"], strict=True)
    return ["no value" if value is None or beyond else amount(value) for value, beyond in pairs]
