"""How predictions move with the columns: curves, the audit, three rows and what raises them."""

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

#: Columns that are drawn, at most, with a direction and without; levels of one that is free.
_MOST, _FREE, _LEVELS = 24, 6, 12
#: Different values of a column up to which the curve has a point at each; points of other curves.
_FEW, _POINTS = 15, 25


def curves(subject: Subject) -> Section:
    """The section on response curves."""
    title = "How the prediction moves with each column"
    if not subject.is_strict:
        text = f"{subject.lacks}, so no response curve is drawn."
        return Section("curves", title, [Paragraph(text, "note")])
    X, names = subject.X.iloc[subject.sample()], list(subject.directions)
    codes = dict(zip(map(str, X), subject.estimator.encoding_.columns, strict=True))
    can_move = [name for name, code in codes.items() if code.kind == "number" or code.seen]
    free = [c for c in subject.importance.index if c in can_move and c not in subject.directions]
    drawn_curves = {name: _values(subject, X, name) for name in [*names[:_MOST], *free[:_FREE]]}
    numbers = np.concatenate([curve.iloc[:, 1:] for curve in drawn_curves.values()])
    room = np.ptp(numbers) or abs(numbers.max()) or 1.0
    limits = numbers.min() - 0.25 * room, numbers.max() + 0.1 * room
    blocks: list[Block] = [
        Paragraph(
            f"Each curve is the average prediction over {subject.sampled()} as one "
            "column takes other values and all others stay as they are (partial dependence); all "
            "have one scale. Columns with a direction come first, then the free ones that matter "
            "most. Grey bars at the foot show how many of the rows have which value; where there "
            "are none, these rows cannot check the curve."
        ),
        Paragraph(
            f"The band around a curve is as wide as if each prediction had been observed in "
            f"{amount(round(subject.estimator.rows_behind_))} rows, and is to hold the true curve "
            f"at {percent(subject.level)} of its values. It does not say how far single outcomes "
            "lie from the curve."
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
    place, values = subject.place(name), X[name].dropna()
    grid: Any = None
    if subject.estimator.encoding_.columns[place].kind == "number" and len(values):
        grid = np.unique(values.to_numpy(np.float64))
        if len(grid) > _FEW:
            low, high = np.quantile(values.to_numpy(np.float64), [0.01, 0.99])
            grid = np.linspace(low, high, _POINTS) if low < high else grid[:: len(grid) // _FEW]
    elif name not in subject.directions:
        seen = subject.estimator.encoding_.columns[place].seen
        frequent = set(values.value_counts().index[:_LEVELS])
        grid = [level for level in seen if level in frequent] or seen[:_LEVELS]
    return subject.estimator.response_curve(X, place, grid, level=subject.level)


def _curve(
    subject: Subject, X: pd.DataFrame, name: str, curve: pd.DataFrame, limits: tuple[float, float]
) -> Figure:
    first, last, value = curve.iloc[0], curve.iloc[-1], subject.value

    def draw(ax: Any) -> None:
        names: Any = {"feature_name": shortened(name, 48), "outcome_name": subject.on_axis}
        names |= {"band_name": subject.band, "percent": subject.is_share}
        plot_feature_curve(curve, rows=X[name], ax=ax, **names)
        ax.set_ylim(limits)
        if pd.api.types.is_numeric_dtype(curve.iloc[:, 0]):
            ax.locator_params(axis="x", nbins=5, integer=pd.api.types.is_integer_dtype(X[name]))
            if 1e4 <= abs(last.iloc[0]) < 1e9:
                ax.xaxis.set_major_formatter("{x:,.0f}")

    moves = (
        f"From {amount(first.iloc[0])} to {amount(last.iloc[0])} the average prediction goes "
        f"from {value(first['prediction'])} to {value(last['prediction'])}."
    )
    if sign := subject.directions.get(name):
        caption = f"{quoted(name)}: the {subject.short} can only {'rise' if sign > 0 else 'fall'}."
    else:
        low, high = curve["prediction"].min(), curve["prediction"].max()
        caption = f"{quoted(name)}, a free column."
        moves = f"The average prediction lies between {value(low)} and {value(high)}."
    caption += f" {moves}"
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
        f"and in one at a time between neighbouring values. If the {subject.short} moves against a "
        f"direction by more than {audit.tolerance:.2g}, that is a violation; less, as in "
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
    "The row with the highest prediction": 1.0,
}
#: Rows whose reasons are counted, columns of a table without a direction, and rows that explained
#: ones are compared with, at most.
_REASONS, _OTHERS, _BACKGROUND = 300, 6, 100


def explained(subject: Subject) -> Section:
    """The section on three rows, and on what raises the predictions of the highest ones."""
    title, estimator = "Three rows explained", subject.estimator
    if subject.lacks:
        text = f"{subject.lacks}, so the model cannot say which value would change a prediction."
        return Section("rows-explained", title, [Paragraph(text, "note")])
    order = np.argsort(subject.predictions, kind="stable")
    rows = [int(order[round(share * (len(order) - 1))]) for share in _PLACES.values()]
    X, short, value, level = subject.X.iloc[rows], subject.short, subject.value, subject.at
    bands = estimator.predict_bands(X, subject.level) if subject.band else None
    columns = {name: _column(subject, X, name, level) for name in subject.directions}
    others = subject.X.iloc[subject.sample(_BACKGROUND)]
    added = estimator.contributions(X, others, seed=subject.seed)
    base = value(float(monotone_prediction(estimator, others).mean()))
    average = "" if subject.threshold is not None else ", the average of all rows"
    text = (
        f"“Adds” is what a column adds to {base}, the average {short} of "
        f"{subject.sampled(_BACKGROUND)}, or takes from it, so that the entries of a row add up "
        "to its own (Shapley values: the mean, over all orders in which columns can go from those "
        "rows to this one, of the change with this column). For columns with a direction, “ends” "
        f"are those between which the {short} moves as this column alone takes the values of the "
        f"training rows, and the last entry is the value of this column alone at which the {short} "
        f"is {value(level)}{average}."
    )
    if (error := float(added["error"].max())) > 0.0:
        text += f" What columns add has a standard error of at most {_signed(subject, error)[1:]}."
    blocks: list[Block] = [Paragraph(text)]
    for place, (name, row) in enumerate(zip(_PLACES, rows, strict=True)):
        p, given = value(subject.predictions[row]), X.iloc[place]
        text = f"{name}, row {subject.X.index[row]}: the {subject.prediction} is {p}"
        if bands is not None:
            text += f" ({value(bands.lower[place])} to {value(bands.upper[place])})"
        adds = added[added["row"] == place].set_index("feature")["contribution"]
        free = [column for column in adds.index if column not in columns]
        table = []
        for column in [c for c in adds.index if c in columns or c in free[:_OTHERS]]:
            entry = [str(column), amount(given[column]), _signed(subject, adds[column])]
            if column in columns:
                low, high, needed = columns[column][place]
                table.append([*entry, f"{value(low)} to {value(high)}", needed])
            else:
                table.append([*entry, "free", ""])
        if rest := free[_OTHERS:]:
            total = _signed(subject, float(adds[rest].sum()))
            table.append([counted(len(rest), "other column"), "", total, "free", ""])
        heads = ["Column", "Value", "Adds", f"Ends of the {short}", f"For {value(level)}"]
        title_of = f"Row {subject.X.index[row]}, column by column"
        blocks += [Paragraph(f"{text}."), Table(title_of, heads, table, (1, 2, 3, 4))]
    return Section("rows-explained", title, [*blocks, *_reasons(subject, order)])


def _signed(subject: Subject, change: float) -> str:
    """A change of a prediction, with its sign."""
    if subject.is_share:
        return f"{100.0 * change:+.1f} points" if abs(change) >= 5e-4 else "0"
    return ("+" if change > 0.0 else "") + amount(change)


def _raised(subject: Subject, X: pd.DataFrame) -> pd.DataFrame:
    """How much higher the prediction of each row is than with the typical value of a column."""
    moved = []
    for name, value in subject.typical.items():
        moved.append(X.copy())
        moved[-1][name] = value
    found = monotone_prediction(subject.estimator, pd.concat([X, *moved])).reshape(-1, len(X))
    return pd.DataFrame((found[0] - found[1:]).T, columns=[*subject.typical])


def _reasons(subject: Subject, order: Any) -> list[Block]:
    """Which columns raise the predictions of the rows at or above the level most often."""
    above = order[subject.predictions[order] >= subject.at][::-1][:_REASONS]
    raised = _raised(subject, subject.X.iloc[above])
    if raised.empty:
        return []
    places = raised.rank(axis=1, ascending=False, method="first").where(raised > 0.0)
    table = [
        [
            str(name),
            amount(subject.typical[name]),
            percent(float((places[name] == 1).mean())),
            percent(float((places[name] <= 3).mean())),
            _signed(subject, float(raised[name].mean())),
        ]
        for name in (places <= 3).mean().sort_values(ascending=False, kind="stable").index[:10]
    ]
    what = f"the {counted(len(above), 'row')} with the highest {subject.short}"
    text = (
        f"What raises {what}, all of them {subject.value(subject.at)} or more, compared with the "
        "typical value of each column alone (the middle number, or the most frequent level):"
    )
    heads = [
        "Column",
        "Typical value",
        "First reason",
        "Among the first three",
        "Raises on average",
    ]
    return [Paragraph(text), Table("Reasons", heads, table, (1, 2, 3, 4))]


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
