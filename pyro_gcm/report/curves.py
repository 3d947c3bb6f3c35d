"""The mean prediction as each constrained column moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.plots import plot_feature_curve
from pyro_gcm.report.page import Block, Figure, Figures, Paragraph, Section, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.texts import amount, counted, quoted, shortened

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
            f"The band around a curve holds {subject.band}; where it is wide, they disagree. It "
            "does not say how far single outcomes lie from the curve."
            if subject.band
            else "There are no bands: the model has no members and no bootstrap models."
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
