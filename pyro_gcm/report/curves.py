"""The mean prediction as each constrained column moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.plots import plot_feature_curve
from pyro_gcm.report.content import Block, Figure, Figures, Paragraph, Section
from pyro_gcm.report.figures import drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, counted, percent, quoted, shortened

#: Rows over which curves are means, at most; columns that are drawn, at most.
_ROWS, _MOST = 1_000, 24
#: Different values of a column up to which the curve has a point at each.
_FEW = 15
#: Points of the other curves.
_POINTS = 25


def curves(subject: Subject, advance: Any) -> Section:
    """The section on response curves.

    :param advance: called after each column.
    """
    title = "How the prediction moves with each column"
    if not subject.directions:
        text = "No column has a direction, so no response curve is drawn."
        return Section("curves", title, [Paragraph(text, "note")])
    if not subject.is_strict:
        text = (
            f"{type(subject.estimator).__name__} has no response curves: its predictions need not "
            "keep the directions. They are left out."
        )
        return Section("curves", title, [Paragraph(text, "note")])
    X = subject.X.iloc[subject.sample(_ROWS)]
    blocks: list[Block] = [
        Paragraph(
            f"Each curve is the {subject.words.averaged} over {subject.named(_ROWS)} as one column "
            "takes other values and all others stay as they are. Grey bars at the foot show how "
            "many of them have which value; where there are none, these rows cannot check the "
            "curve."
        ),
        Paragraph(_about_bands(subject)),
    ]
    figures = []
    for place, (name, sign) in enumerate(subject.directions.items()):
        if place < _MOST:
            figures.append(_curve(subject, X, name, sign))
        advance()
    blocks.append(Figures(figures))
    if len(subject.directions) > _MOST:
        rest = len(subject.directions) - _MOST
        blocks.append(Paragraph(f"Curves of {counted(rest, 'column')} more are left out.", "note"))
    caution = (
        "This is what the model says of rows with another value. Whether changing the value of a "
        "row has that effect is another question, which needs an experiment."
    )
    blocks.append(Paragraph(caution, "note"))
    return Section("curves", title, blocks)


def _about_bands(subject: Subject) -> str:
    share = percent(subject.level)
    if not subject.band_of:
        return "There are no bands: the model has no members, and no bootstrap models were fitted."
    if subject.estimator.bootstrap_models_:
        made = "that were fitted to rows drawn anew from the training rows"
    else:
        made = "networks that the model is made of"
    return (
        f"The band around a curve holds at least {share} of the {subject.band_of}, {made}. "
        f"Where it is wide, they disagree on the {subject.words.averaged}, and the model is unsure "
        "of it. The band does not say how far single outcomes lie from the curve."
    )


def _curve(subject: Subject, X: pd.DataFrame, name: str, sign: int) -> Figure:
    from matplotlib.ticker import MaxNLocator

    words, place = subject.words, list(map(str, subject.X.columns)).index(name)
    code = subject.estimator.encoding_.columns[place]
    found = subject.estimator.response_curve(X, place, _values(X, name, code), level=subject.level)
    first, last = found.iloc[0], found.iloc[-1]
    band = (
        f"at least {percent(subject.level)} of the {subject.band_of}" if subject.band_of else None
    )

    def draw(ax: Any) -> None:
        plot_feature_curve(
            found,
            rows=X[name],
            feature_name=shortened(name, 48),
            outcome_name=words.on_axis,
            band_name=band,
            percent=words.is_share,
            ax=ax,
        )
        if code.kind == "number":
            ax.xaxis.set_major_locator(MaxNLocator(5))
            if 1e4 <= abs(last.iloc[0]) < 1e9:
                ax.xaxis.set_major_formatter("{x:,.0f}")

    verb = "rise" if sign > 0 else "fall"
    moves = (
        f"From {amount(first.iloc[0])} to {amount(last.iloc[0])} the {words.averaged} goes from "
        f"{words.value(first['prediction'])} to {words.value(last['prediction'])}."
    )
    ends = ""
    if subject.band_of:
        low, high = words.value(last["lower"]), words.value(last["upper"])
        ends = f" At the last value the band goes from {low} to {high}."
    caption = f"{quoted(name)}: the {words.short} can only {verb}. {moves}{ends}"
    return drawn(draw, f"Response curve of {quoted(name)}. {moves}", caption)


def _values(X: pd.DataFrame, name: str, code: Any) -> Any:
    """All values of a column with few of them, or some between the outer percentiles."""
    if code.kind != "number":
        return None
    values = np.unique(X[name].dropna().to_numpy(dtype=np.float64))
    if len(values) < 2:
        return None
    low, high = np.quantile(X[name].dropna().to_numpy(dtype=np.float64), [0.01, 0.99])
    return values if len(values) <= _FEW or low == high else np.linspace(low, high, _POINTS)
