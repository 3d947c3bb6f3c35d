"""Concordance and calibration of the times of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.plots import plot_survival
from pyro_gcm.report.content import Block, Fact, Facts, Figure, Figures, Paragraph
from pyro_gcm.report.figures import drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, counted, percent, quoted

#: Rows of which curves are predicted, at most, and points of a curve.
_ROWS, _POINTS = 2_000, 60
_GROUPS = ("low risk", "middle risk", "high risk")


def of_times(subject: Subject, scores: dict[str, float]) -> tuple[list[Block], str]:
    """Blocks on a survival model, and a sentence."""
    words, times = subject.words, subject.y
    seen, concordance = times.is_exact.numpy(), scores.get("concordance")
    facts = [
        Fact(
            f"{int(seen.sum()):,}",
            "events seen",
            f"The other {counted(int((~seen).sum()), 'row')} were watched up to a time and had "
            "no event by then.",
        ),
    ]
    notes: list[Block] = []
    if concordance is None:
        in_short = "No two rows can be compared, so there is no concordance of the risks"
        notes.append(Paragraph(f"{in_short}.", "note"))
    else:
        meaning = (
            f"Of 100 pairs of rows that can be compared, {100 * concordance:.0f} have the earlier "
            "event in the row with the higher risk. 50 is chance."
        )
        facts.insert(0, Fact(f"{concordance:.3f}", "concordance", meaning))
        in_short = f"The concordance of the risks is {concordance:.3f} (0.5 is chance)"
    if not seen.any():
        none = Paragraph("No event was seen: there is no curve.")
        return [Facts(facts), *notes, none], f"{in_short}."
    estimate = kaplan_meier(times)
    before = estimate["time"] <= words.horizon
    came = 1.0 - float(estimate["survival"][before].iloc[-1]) if before.any() else 0.0
    horizon, watched = amount(words.horizon), float(times.lower.max())
    until, short_of = horizon, ""
    if watched < words.horizon and came < 1.0:
        until, short_of = amount(watched), f"no row was watched up to {horizon}"
    meaning = (
        f"Share of rows with the event by {quoted(words.target)} = {until}, as Kaplan and Meier "
        "estimate it from the same rows; rows that left early count for as long as they were "
        "watched."
    )
    if short_of:
        meaning += f" Here {short_of}, so the rate by then is not known."
    facts.insert(0, Fact(percent(came), "base rate", meaning))
    facts.insert(
        1, Fact(percent(subject.average), "mean risk", f"The mean prediction, by {horizon}.")
    )
    in_short += f"; {percent(came)} have the event by {until}"
    in_short += f" ({short_of})" if short_of else ""
    in_short += f", and the mean risk by {horizon} is {percent(subject.average)}."
    return [Facts(facts), *notes, Figures(_curves(subject))], in_short


def _curves(subject: Subject) -> list[Figure]:
    """Predicted curves beside Kaplan and Meier's, for all rows and for groups of risk."""
    some, rows = subject.sample(_ROWS), subject.named(_ROWS)
    X, times = subject.X.iloc[some], subject.y[some]
    last = times.lower.numpy()
    end = float(np.quantile(last[last > 0.0], 0.95)) if (last > 0.0).any() else 1.0
    at = np.linspace(end / _POINTS, end, _POINTS)
    survival = subject.estimator.predict_survival_function(X, return_array=True, times=at)
    ends = np.quantile(subject.predictions[some], [1 / 3, 2 / 3])
    groups = np.searchsorted(ends, subject.predictions[some])
    named = pd.Categorical.from_codes(groups, pd.Index(_GROUPS), ordered=True)
    seen = times.is_exact.numpy()
    enough = all(seen[groups == group].any() for group in np.unique(groups))
    name = subject.words.target

    def draw(ax: Any, by: Any) -> None:
        plot_survival(at, survival, times, groups=by, at_risk=False, time_name=name, ax=ax)
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.legend(fontsize="x-small", frameon=False)

    means = np.array([1.0, *survival.mean(0)])
    told = ", ".join(
        f"{percent(means[place])} at {amount([0.0, *at][place])}"
        for place in (_POINTS // 4, _POINTS // 2, _POINTS)
    )
    caption = (
        f"Over {rows}. The smooth curve is the mean prediction of the probability of no event; "
        "steps are Kaplan and Meier's estimate from their outcomes, with its band of 95\u00a0%."
    )
    alt = f"Predicted probability of no event over {quoted(name)}: {told}; and the estimate."
    found = [drawn(lambda ax: draw(ax, None), alt, caption)] if seen.any() else []
    if enough and len(np.unique(groups)) > 1:
        caption = (
            f"Thirds of {rows} by their predicted risk. If the model tells rows apart as far as "
            "it says, each smooth curve runs inside the band of its own steps."
        )
        alt = "Predicted and estimated probability of no event, for thirds of the rows by risk."
        found.append(drawn(lambda ax: draw(ax, named), alt, caption))
    return found
