"""Concordance and calibration of the times of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.plots import plot_survival
from pyro_gcm.plots.axes import ticks_of_shares
from pyro_gcm.report.page import Block, Fact, Facts, Figure, Figures, Paragraph, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.texts import amount, counted, percent, quoted

#: Rows of which curves are predicted, at most, and points of a curve.
_ROWS, _POINTS = 2_000, 60
_GROUPS = ("low risk", "middle risk", "high risk")


def of_times(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on a survival model, and a sentence."""
    times, concordance = subject.y, subject.scores.get("concordance")
    seen = times.is_exact.numpy()
    blocks: list[Block] = []
    if concordance is None:
        facts, in_short = [], "No two rows can be compared, so there is no concordance of the risks"
        blocks.append(Paragraph(f"{in_short}.", "note"))
    else:
        meaning = (
            f"Of 100 pairs of rows that can be compared, {100 * concordance:.0f} have the earlier "
            "event in the row with the higher risk. 50 is chance."
        )
        facts = [Fact(f"{concordance:.3f}", "concordance", meaning)]
        in_short = f"The concordance of the risks is {concordance:.3f} (0.5 is chance)"
    meaning = (
        f"The other {counted(int((~seen).sum()), 'row')} were watched up to a time and had no "
        "event by then."
    )
    facts.append(Fact(f"{int(seen.sum()):,}", "events seen", meaning))
    if not seen.any():
        blocks.append(Paragraph("No event was seen: there is no curve."))
        return [Facts(facts), *blocks], f"{in_short}."
    estimate, horizon = kaplan_meier(times), amount(subject.horizon)
    before, last = estimate["time"] <= subject.horizon, float(times.lower.max())
    rate = 1.0 - float(estimate["survival"][before].iloc[-1]) if before.any() else 0.0
    until, unknown = horizon, ""
    if last < subject.horizon and rate < 1.0:
        until, unknown = amount(last), f" (no row was watched up to {horizon})"
    meaning = (
        f"Share of rows with the event by {quoted(subject.target)} = {until}{unknown}, as Kaplan "
        "and Meier estimate it from the same rows; rows that left early count for as long as they "
        "were watched."
    )
    risk = Fact(percent(subject.average), "mean risk", f"The mean prediction, by {horizon}.")
    in_short += (
        f"; {percent(rate)} have the event by {until}{unknown}, and the mean risk by {horizon} is "
        f"{risk.value}."
    )
    facts = [Fact(percent(rate), "base rate", meaning), risk, *facts]
    return [Facts(facts), *blocks, Figures([_curves(subject)])], in_short


def _curves(subject: Subject) -> Figure:
    """Predicted curves beside Kaplan and Meier's, for groups of risk where each has an event."""
    some, rows = subject.sample(_ROWS), subject.sampled(_ROWS)
    X, times = subject.X.iloc[some], subject.y[some]
    last, risks = times.lower.numpy(), subject.predictions[some]
    end = float(np.quantile(last[last > 0.0], 0.95)) if (last > 0.0).any() else 1.0
    grid = np.linspace(end / _POINTS, end, _POINTS)
    survival = subject.estimator.predict_survival_function(X, return_array=True, times=grid)
    thirds = np.searchsorted(np.quantile(risks, [1 / 3, 2 / 3]), risks)
    groups = pd.Categorical.from_codes(thirds, pd.Index(_GROUPS), ordered=True)
    with_event = np.unique(thirds[times.is_exact.numpy()])
    several = len(with_event) == len(np.unique(thirds)) > 1

    def draw(ax: Any) -> None:
        options: Any = {"groups": groups if several else None, "at_risk": False}
        plot_survival(grid, survival, times, time_name=subject.target, ax=ax, **options)
        ticks_of_shares(ax.yaxis, percent=True)
        above: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 3}
        ax.legend(fontsize="x-small", **above)

    ends = [thirds == third for third in np.unique(thirds)] if several else [thirds >= 0]
    at_end = ", ".join(percent(float(survival[group, -1].mean())) for group in ends)
    caption = (
        f"{'Thirds of ' if several else ''}{rows}{' by their predicted risk' if several else ''}. "
        "Smooth curves are mean predictions of the probability of no event; steps are Kaplan and "
        "Meier's estimates from the outcomes of the same rows, with bands of 95\u00a0%. Where the "
        "model is right, each smooth curve runs inside its own band."
    )
    alt = (
        f"Predicted and estimated probability of no event over {quoted(subject.target)}; it is "
        f"predicted to be {at_end} at {amount(end)}."
    )
    return drawn(draw, alt, caption)
