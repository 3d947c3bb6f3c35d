"""How good predictions of competing risks are: incidences, and concordance, of every cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.estimators.competing import concordance_of
from pyro_gcm.estimators.event_times import NoPairs
from pyro_gcm.plots.axes import PALETTE, ticks_of_shares
from pyro_gcm.report.page import Block, Figure, Figures, Paragraph, Table, drawn
from pyro_gcm.report.subject import Array, Subject, amount, percent, quoted, shortened

#: Points of a curve, and rows behind it, at most.
_TIMES, _ROWS = 40, 1_000


def of_causes(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on a model of competing risks, and a sentence."""
    times, shares = {name: subject.y[name] for name in subject.labels}, subject.shares(subject.X)
    horizon, rows = amount(subject.horizon), []
    at, steps = aalen_johansen(times)
    observed = steps[np.searchsorted(at, subject.horizon, side="right")]
    for name, p, rate in zip(times, shares.T, observed, strict=True):
        try:
            concordance = f"{concordance_of(times, name, p):.3f}"
        except NoPairs:
            concordance = "no pairs"
        came = f"{int(times[name].is_exact.sum()):,}"
        rows.append([name, came, percent(float(rate)), percent(float(p.mean())), concordance])
    name, came, rate, mean, concordance = rows[-1]
    title = f"Incidences of the causes by {horizon}"
    heads = ["Cause", "Events seen", "Observed", "Mean predicted", "Concordance"]
    text = (
        "“Observed” is the incidence that Aalen and Johansen estimate from the same rows: those "
        "that left early count for as long as they were watched. Concordance is the share of pairs "
        "of rows that can be compared in which the earlier event came to the row with the higher "
        "incidence; rows in which another cause came first never have it, and 0.5 is chance."
    )
    table = Table(title, heads, rows, range(1, len(heads)))
    in_short = (
        f"{quoted(name)} comes first by {horizon} in {rate} of the rows, where {mean} are "
        f"predicted; its concordance is {concordance} (0.5 is chance)."
    )
    return [table, Paragraph(text, "note"), Figures([_curves(subject, times)])], in_short


def aalen_johansen(times: Mapping[str, SurvivalTimes]) -> tuple[Array, Array]:
    """Incidences without columns: the times of events [E], and those of K causes [E + 1, K].

    :param times: by cause, as `SurvivalTimes.competing` returns them.
    :returns: incidences before the first time, and from each on.

    >>> y = SurvivalTimes.competing([1.0, 2.0, 3.0, 4.0], ["a", "b", None, "a"])
    >>> aalen_johansen(y)[1].tolist()
    [[0.0, 0.0], [0.25, 0.0], [0.25, 0.25], [0.75, 0.25]]
    """
    first = next(iter(times.values()))
    last, entry = first.lower.numpy(), np.sort(first.entry.numpy())
    came = np.stack([own.is_exact.numpy() for own in times.values()], 1)
    at, place = np.unique(last[came.any(1)], return_inverse=True)
    events = np.zeros((len(at), len(times)))
    np.add.at(events, place, came[came.any(1)])
    at_risk = np.searchsorted(entry, at) - np.searchsorted(np.sort(last), at)
    hazards = events / at_risk[:, None]
    before = np.cumprod(np.append(1.0, 1.0 - hazards.sum(1)))[:-1, None]
    return at, np.vstack([np.zeros(len(times)), np.cumsum(before * hazards, 0)])


def _curves(subject: Subject, times: Mapping[str, SurvivalTimes]) -> Figure:
    """Mean incidences over time, beside those of Aalen and Johansen of the same rows."""
    some = subject.sample(_ROWS)
    at, steps = aalen_johansen({name: own[some] for name, own in times.items()})
    end = float(np.quantile(next(iter(times.values())).lower.numpy(), 0.95)) or 1.0
    grid = np.linspace(0.0, end, _TIMES)
    found = subject.estimator.predict_cumulative_incidence(subject.X.iloc[some], grid).mean(0)
    found = found[:, [subject.estimator.causes_.index(name) for name in times]]
    inside = np.searchsorted(at, end, side="right")

    def draw(ax: Any) -> None:
        own = zip(times, found.T, steps[: inside + 1].T, PALETTE, strict=False)
        for name, smooth, estimate, color in own:
            ax.plot(grid, smooth, color=color, label=quoted(shortened(name)))
            options: Any = {"where": "post", "color": color, "linewidth": 0.9}
            ax.step([0.0, *at[:inside], end], [*estimate, estimate[-1]], **options)
        ticks_of_shares(ax.yaxis, percent=True)
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel(subject.target)
        ax.set_ylabel("incidence")
        ax.legend(loc="upper left")

    ends = "; ".join(
        f"{quoted(name)} {percent(float(p))} predicted and {percent(float(rate))} observed"
        for name, p, rate in zip(times, found[-1], steps[inside], strict=True)
    )
    caption = (
        f"Mean incidences of {subject.sampled(_ROWS)}. Smooth curves are predictions; steps are "
        "Aalen and Johansen's estimates from the outcomes of the same rows."
    )
    return drawn(draw, f"Incidences over time, at {amount(end)}: {ends}.", caption)
