"""How predictions move with the columns that have a direction: curves, the audit, three rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.estimators.kinds import monotone_prediction
from pyro_gcm.plots import plot_feature_curve
from pyro_gcm.plots.directions import draw_worst_pair
from pyro_gcm.report.page import Block, Figure, Figures, Paragraph, Section, Table, drawn
from pyro_gcm.report.subject import Subject, amount, counted, listed, percent, quoted, shortened

#: Rows over which curves are means, at most; columns that are drawn, at most.
_ROWS, _MOST = 1_000, 24
#: Different values of a column up to which the curve has a point at each; points of other curves.
_FEW, _POINTS = 15, 25


def curves(subject: Subject) -> Section:
    """The section on response curves."""
    title = "How the prediction moves with each column"
    if subject.lacks:
        text = f"{subject.lacks}, so no response curve is drawn."
        return Section("curves", title, [Paragraph(text, "note")])
    X, names = subject.X.iloc[subject.sample(_ROWS)], list(subject.directions)
    drawn_curves = {name: _values(subject, X, name) for name in names[:_MOST]}
    numbers = np.concatenate([curve.iloc[:, 1:] for curve in drawn_curves.values()])
    room = np.ptp(numbers) or abs(numbers.max()) or 1.0
    limits = numbers.min() - 0.25 * room, numbers.max() + 0.1 * room
    blocks: list[Block] = [
        Paragraph(
            f"Each curve is the average prediction over {subject.sampled(_ROWS)} as one "
            "column takes other values and all others stay as they are; all have one scale. Grey "
            "bars at the foot show how many of the rows have which value; where there are none, "
            "these rows cannot check the curve."
        ),
        Paragraph(
            f"The band around a curve is as wide as if each prediction had been observed in "
            f"{amount(subject.estimator.rows_behind_)} rows, and is to hold the true curve at "
            f"{percent(subject.level)} of its values. It does not say how far single outcomes lie "
            "from the curve."
            if subject.band
            else "There are no bands: the model has no members."
        ),
        Figures([_curve(subject, X, *curve, limits) for curve in drawn_curves.items()]),
    ]
    if len(names) > _MOST:
        rest = counted(len(names) - _MOST, "column")
        blocks.append(Paragraph(f"Curves of {rest} more are left out.", "note"))
    return Section("curves", title, blocks)


def _values(subject: Subject, X: pd.DataFrame, name: str) -> pd.DataFrame:
    """The curve of a column at all of few values, or at some between the outer percentiles."""
    place, grid, values = subject.place(name), None, X[name].dropna()
    if subject.estimator.encoding_.columns[place].kind == "number" and len(values):
        grid = np.unique(values.to_numpy(np.float64))
        if len(grid) > _FEW:
            low, high = np.quantile(values.to_numpy(np.float64), [0.01, 0.99])
            grid = np.linspace(low, high, _POINTS) if low < high else grid[:: len(grid) // _FEW]
    return subject.estimator.response_curve(X, place, grid, level=subject.level)


def _curve(
    subject: Subject, X: pd.DataFrame, name: str, curve: pd.DataFrame, limits: tuple[float, float]
) -> Figure:
    from matplotlib.ticker import MaxNLocator

    first, last, value = curve.iloc[0], curve.iloc[-1], subject.value

    def draw(ax: Any) -> None:
        names: Any = {"feature_name": shortened(name, 48), "outcome_name": subject.on_axis}
        names |= {"band_name": subject.band, "percent": subject.is_share}
        plot_feature_curve(curve, rows=X[name], ax=ax, **names)
        ax.set_ylim(limits)
        if pd.api.types.is_numeric_dtype(curve.iloc[:, 0]):
            ax.xaxis.set_major_locator(MaxNLocator(5))
            if 1e4 <= abs(last.iloc[0]) < 1e9:
                ax.xaxis.set_major_formatter("{x:,.0f}")

    moves = (
        f"From {amount(first.iloc[0])} to {amount(last.iloc[0])} the average prediction goes "
        f"from {value(first['prediction'])} to {value(last['prediction'])}."
    )
    verb = "rise" if subject.directions[name] > 0 else "fall"
    caption = f"{quoted(name)}: the {subject.short} can only {verb}. {moves}"
    return drawn(draw, f"Response curve of {quoted(name)}. {moves}", caption)


def audited(subject: Subject) -> Section:
    """The section on the audit."""
    title, audit = "Do predictions keep their directions?", subject.audit
    if audit is None:
        text = "No column with a direction has two different values in these rows, so there is "
        if not subject.directions:
            text = "No column has a direction, so there is "
        return Section("audit", title, [Paragraph(f"{text}nothing to search for.", "note")])
    pairs, names = f"{audit.pairs:,}", [quoted(name) for name in subject.directions]
    if audit.passed:
        verdict = f"Passed. No violation was found in {pairs} pairs."
        if not subject.is_strict:
            verdict += " This does not prove that there is none: the model is not strict."
    else:
        verdict = (
            f"Not passed. {pairs} pairs have {counted(audit.violations, 'violation')} "
            f"({percent(audit.rate)}); in the worst one the {subject.short} moves against a "
            f"direction by {subject.value(audit.largest_drop)}."
        )
    searched = (
        f"The audit compares pairs: a row of the data, and the same row with other values of "
        f"{listed(names)}, inside the range of these rows, by random steps in all of them at once "
        f"and in one at a time between neighbouring values. A {subject.short} that moves against "
        f"its direction by more than {audit.tolerance:.2g} is a violation; less, as in "
        f"{counted(audit.rounding, 'pair')} here, is rounding of the computer. The command “audit” "
        "searches longer, and around the worst pairs."
    )
    blocks: list[Block] = [Paragraph(verdict, "good" if audit.passed else "bad")]
    blocks.append(Paragraph(searched))
    if audit.witness is not None:
        rows = [
            [str(row["column"]), f"{row['pairs']:,}", f"{row['violations_alone']:,}"]
            for row in audit.by_column.to_dict("records")
        ]
        heads = ["Column", "Pairs in which it moves", "Violations in which it moves alone"]
        blocks.append(Table("Violations by column", heads, rows, (1, 2)))
        figure = drawn(
            lambda ax: draw_worst_pair(ax, audit, subject.on_axis),
            f"The prediction along the worst pair, which falls by {audit.largest_drop:.3g}.",
            "The prediction along the worst pair, which should not fall.",
        )
        blocks.append(Figures([figure]))
    return Section("audit", title, blocks, f"The audit of the directions: {verdict}")


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
            text += f" ({low} to {high})"
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
