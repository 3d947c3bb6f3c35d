"""Three rows explained: how far each column moves the prediction, and the value for an average."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.estimators.kinds import monotone_prediction
from pyro_gcm.report.page import Block, Paragraph, Section, Table
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.texts import amount, listed, quoted

#: Which rows, as shares of all in the order of their predictions.
_PLACES = {
    "A row with a low prediction": 0.05,
    "A typical row": 0.5,
    "A row with a high prediction": 0.95,
}


def explained(subject: Subject) -> Section:
    """The section on three rows."""
    title, estimator = "Three rows explained", subject.estimator
    if subject.lacks:
        text = f"{subject.lacks}, so the model cannot say which value would change a prediction."
        return Section("rows-explained", title, [Paragraph(text, "note")])
    order = np.argsort(subject.predictions, kind="stable")
    rows = [int(order[round(share * (len(order) - 1))]) for share in _PLACES.values()]
    X, level = subject.X.iloc[rows], subject.average
    if subject.is_share:  # `required` asks for a share that is neither 0 nor 1
        level = min(max(level, 1e-9), 1.0 - 1e-9)
    bands = estimator.predict_bands(X, subject.level) if subject.band else None
    columns = {name: _column(subject, X, name, level) for name in subject.directions}
    short, value = subject.short, subject.value
    blocks: list[Block] = [
        Paragraph(
            f"For each column with a direction: between which ends the {short} of the row moves as "
            "this column alone takes the values of the training rows, and at which value of this "
            f"column alone the {short} is {value(level)}, the average of these rows."
        )
    ]
    for place, (name, row) in enumerate(zip(_PLACES, rows, strict=True)):
        p, given = value(subject.predictions[row]), X.iloc[place]
        text = f"{name}, row {row + 1:,}: the {subject.prediction} is {p}"
        if bands is not None:
            low, high = value(bands.lower[place]), value(bands.upper[place])
            text += f"; {subject.band} say {low} to {high}"
        widest = max(columns, key=lambda name: columns[name][place][1] - columns[name][place][0])
        text += f". The column that can move it most is {quoted(widest)}."
        others = [f"{column} {amount(v)}" for column, v in given.items() if column not in columns]
        text += f" Its other columns: {listed(others, 12)}." if others else ""
        table = [
            [column, amount(given[column]), f"{value(low)} to {value(high)}", needed]
            for column, answers in columns.items()
            for low, high, needed in [answers[place]]
        ]
        heads = ["Column", "Value", f"Ends of the {short}", f"For {value(level)}"]
        columns_of_row = Table(f"Row {row + 1:,}, column by column", heads, table, (1, 2, 3))
        blocks += [Paragraph(text), columns_of_row]
    return Section("rows-explained", title, blocks)


def _column(
    subject: Subject, X: pd.DataFrame, name: str, level: float
) -> list[tuple[float, float, str]]:
    """The ends of the prediction of each row as a column moves, and its value for a level."""
    estimator, place = subject.estimator, subject.place(name)
    code = estimator.encoding_.columns[place]
    ends = []
    for value in code.values_at(np.array([code.low, code.high])[:: code.sign]):
        moved = X.copy()
        moved[name] = value
        ends.append(monotone_prediction(estimator, moved))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of values beyond the data: the text says it
        answers = estimator.required(X, place, level)

    def needed(value: Any, beyond: bool) -> str:
        if beyond or pd.isna(value):
            return "no value"
        return "between false and true" if subject.is_boolean(name) else amount(value)

    required = map(needed, answers["required"], answers["beyond"])
    return list(zip(*ends, required, strict=True))
