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
    blocks: list[Block] = [
        Paragraph(
            f"Each curve is the average prediction over {subject.sampled(_ROWS)} as one "
            "column takes other values and all others stay as they are. Grey bars at the foot show "
            "how many of them have which value; where there are none, these rows cannot check the "
            "curve."
        ),
        Paragraph(
            f"The band around a curve holds {subject.band}; where it is wide, they disagree. It "
            "does not say how far single outcomes lie from the curve."
            if subject.band
            else "There are no bands: the model has no members and no bootstrap models."
        ),
        Figures([_curve(subject, X, name) for name in names[:_MOST]]),
    ]
    if len(names) > _MOST:
        rest = counted(len(names) - _MOST, "column")
        blocks.append(Paragraph(f"Curves of {rest} more are left out.", "note"))
    return Section("curves", title, blocks)


def _curve(subject: Subject, X: pd.DataFrame, name: str) -> Figure:
    from matplotlib.ticker import MaxNLocator

    place = subject.place(name)
    column, code = X.iloc[:, place], subject.estimator.encoding_.columns[place]
    grid = _grid(column.dropna().to_numpy(np.float64)) if code.kind == "number" else None
    curve = subject.estimator.response_curve(X, place, grid, level=subject.level)
    first, last = curve.iloc[0], curve.iloc[-1]
    value = subject.value

    def draw(ax: Any) -> None:
        names: Any = {"feature_name": shortened(name, 48), "outcome_name": subject.on_axis}
        names |= {"band_name": subject.band, "percent": subject.is_share}
        plot_feature_curve(curve, rows=column, ax=ax, **names)
        if code.kind == "number":
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


def _grid(values: Any) -> Any:
    """All values of a column with few of them, or some between the outer percentiles."""
    different = np.unique(values)
    if len(different) < 2:
        return None
    low, high = np.quantile(values, [0.01, 0.99])
    few = len(different) <= _FEW or low == high
    return different if few else np.linspace(low, high, _POINTS)
