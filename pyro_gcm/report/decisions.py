"""What a classifier is good for where a threshold decides: ranking, bands, errors and costs."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, rankdata

from pyro_gcm.plots.axes import GREY, PALETTE, ticks_of_shares
from pyro_gcm.report.page import Block, Fact, Figure, Figures, Paragraph, Section, Table, drawn
from pyro_gcm.report.subject import Subject, percent, quoted

#: Bands of equally many rows, and thresholds beside the one that decides, as multiples of it.
_BANDS, _MULTIPLES = 10, (0.5, 1.0, 1.5, 2.0)
#: Points of a curve, at most.
_POINTS = 200


def auc_interval(
    p: npt.NDArray[Any], event: npt.NDArray[Any], level: float = 0.95
) -> tuple[float, float, float]:
    """The AUC and its interval, by the variance of DeLong, DeLong and Clarke-Pearson (1988).

    :param p: predicted probabilities, [n]; `event`: whether it occurred, [n], with both outcomes.

    >>> [round(number, 3) for number in auc_interval(np.arange(6), np.arange(6) % 3 > 0)]
    [0.75, 0.184, 1.0]
    """
    event = np.asarray(event, bool)
    inside = [rankdata(p[event]), rankdata(p[~event])]
    ranks, counts = rankdata(p), [int(event.sum()), int((~event).sum())]
    above = (ranks[event] - inside[0]) / counts[1]  # share of the other rows below each event
    below = 1.0 - (ranks[~event] - inside[1]) / counts[0]
    variance = sum(np.var(v, ddof=min(1, len(v) - 1)) / len(v) for v in (above, below))
    half, auc = NormalDist().inv_cdf(0.5 + 0.5 * level) * float(variance) ** 0.5, above.mean()
    return float(auc), max(0.0, float(auc - half)), min(1.0, float(auc + half))


def ranking(p: npt.NDArray[Any], event: npt.NDArray[Any]) -> tuple[list[Fact], str]:
    """AUC, Gini and KS of predictions [n], and the first two in words."""
    from sklearn.metrics import roc_curve

    auc, low, high = auc_interval(p, event)
    interval = f"{low:.3f} to {high:.3f}"
    of_events, of_others = roc_curve(event, p)[1::-1]
    ks = float((of_events - of_others).max())
    meaning = (
        f"95 % interval {interval}. Of 100 pairs of a row with the event and one without, "
        f"{100 * auc:.0f} are in the right order. 50 is chance."
    )
    facts = [
        Fact(f"{auc:.3f}", "AUC", meaning),
        Fact(f"{2.0 * auc - 1.0:.3f}", "Gini", "2 AUC - 1; 0 is chance, 1 is best."),
        Fact(
            f"{ks:.3f}",
            "KS",
            "Largest difference, over all thresholds, between the share of events and the share of "
            "other rows that lie above.",
        ),
    ]
    return facts, f"the AUC is {auc:.3f} ({interval}; 0.5 is chance, 1 is best)"


def decisions(subject: Subject) -> Section | None:
    """The section on thresholds; None for what is no classifier, and without both outcomes."""
    observed = subject.observed
    if subject.kind != "classifier" or observed is None or observed.min() == observed.max():
        return None
    at, event = subject.at, observed > 0.0
    said = "the average prediction, as none was given" if subject.threshold is None else "as given"
    weight = (1.0 - at) / at
    happening = subject.happening()
    blocks: list[Block] = [
        Paragraph(
            f"Rows at or above a threshold are taken for those in which {happening}. Here "
            f"it is {percent(at)} ({said}). It is the cheapest one if a missed event costs "
            f"{weight:.3g} times as much as a false alarm, and costs below count so."
        ),
        _confusion(subject, event),
        _thresholds(subject, event, weight),
        Paragraph(
            "Bands of equally many rows, the highest predictions first. “Lift” is the observed "
            "rate as a multiple of that of all rows; “found” is the share of all events in this "
            "band and those above it."
        ),
        _bands(subject, event),
        Figures([_roc(subject, event), _gains(subject, event)]),
    ]
    above = subject.predictions >= at
    in_short = (
        f"At a threshold of {percent(at)}, {percent(above.mean())} of the rows lie above it, with "
        f"{percent(event[above].sum() / event.sum())} of the events."
    )
    return Section("decisions", "What a threshold does", blocks, in_short)


def _confusion(subject: Subject, event: npt.NDArray[np.bool_]) -> Table:
    from sklearn.metrics import confusion_matrix

    counts = confusion_matrix(event, subject.predictions >= subject.at, labels=[True, False])
    *others, event_name = map(quoted, subject.labels)
    names = [event_name, others[0] if len(others) == 1 else "another class"]
    rows = [[name, *(f"{n:,}" for n in of_row)] for name, of_row in zip(names, counts, strict=True)]
    at = percent(subject.at)
    return Table(
        f"Rows by outcome and side of {at}", ["Outcome", "At or above", "Below"], rows, (1, 2)
    )


def _thresholds(subject: Subject, event: npt.NDArray[np.bool_], weight: float) -> Table:
    rows, n = [], len(event)
    for threshold in sorted({min(each * subject.at, 0.999) for each in _MULTIPLES} | {0.0, 1.0}):
        above = subject.predictions >= threshold if threshold < 1.0 else np.zeros(n, bool)
        hits, alarms = int((above & event).sum()), int((above & ~event).sum())
        cost = 100.0 * (alarms + weight * (event.sum() - hits)) / n
        precision = percent(hits / (hits + alarms)) if hits + alarms else "no rows"
        name = {0.0: "all rows", 1.0: "no row"}.get(threshold, percent(threshold))
        found = percent(hits / event.sum())
        rows.append([name, percent(above.mean()), precision, found, f"{cost:.1f}"])
    heads = ["Threshold", "Rows above", "Precision", "Events found", "Cost of 100 rows"]
    title = "Thresholds side by side; costs are in false alarms"
    return Table(title, heads, rows, (1, 2, 3, 4))


def _bands(subject: Subject, event: npt.NDArray[np.bool_]) -> Table:
    p, rows, found = subject.predictions, [], 0
    parts = np.array_split(np.argsort(-p, kind="stable"), min(_BANDS, len(p)))
    for number, part in enumerate(parts, 1):
        hits = int(event[part].sum())
        found += hits
        ends = binomtest(hits, len(part)).proportion_ci(method="wilson")
        lift = f"{hits / len(part) / event.mean():.2f}"
        rate = f"{percent(hits / len(part))} ({percent(ends.low)} to {percent(ends.high)})"
        range_of = f"{percent(p[part].min())} to {percent(p[part].max())}"
        shown = [
            f"{len(part):,}",
            percent(p[part].mean()),
            rate,
            lift,
            percent(found / event.sum()),
        ]
        rows.append([f"{number}", range_of, *shown])
    heads = ["Band", "Predictions", "Rows", "Predicted", "Observed (95 %)", "Lift", "Found"]
    return Table("Score bands with observed rates", heads, rows, (1, 2, 3, 4, 5, 6))


def _roc(subject: Subject, event: npt.NDArray[np.bool_]) -> Figure:
    from sklearn.metrics import roc_curve

    of_others, of_events, _ = roc_curve(event, subject.predictions)
    of_others, of_events = _thinned(of_others), _thinned(of_events)
    above = subject.predictions >= subject.at
    here = float(above[~event].mean()), float(above[event].mean())

    def draw(ax: Any) -> None:
        ax.plot(of_others, of_events, color=PALETTE[0], label="model")
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="chance")
        ax.plot(*here, "o", color=PALETTE[1], label=f"threshold {percent(subject.at)}")
        ax.set_xlabel("share of the other rows above")
        ax.set_ylabel("share of the events above")
        _finish(ax)

    alt = f"ROC curve; at the threshold {percent(here[1])} of the events and {percent(here[0])} of"
    caption = "Receiver operating characteristic: what each threshold finds, and what it costs."
    return drawn(draw, f"{alt} the other rows lie above.", caption)


def _gains(subject: Subject, event: npt.NDArray[np.bool_]) -> Figure:
    found = np.cumsum(event[np.argsort(-subject.predictions, kind="stable")]) / event.sum()
    share = np.arange(1, len(found) + 1) / len(found)
    fifth = percent(float(found[max(0, round(0.2 * len(found)) - 1)]))

    def draw(ax: Any) -> None:
        ax.plot([0, *_thinned(share)], [0, *_thinned(found)], color=PALETTE[0], label="model")
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="chance")
        ax.set_xlabel("share of the rows, highest predictions first")
        ax.set_ylabel("share of the events among them")
        _finish(ax)

    alt = f"Cumulative gains: the fifth of the rows with the highest predictions has {fifth} of"
    caption = f"Cumulative gains. The highest fifth of the predictions has {fifth} of the events."
    return drawn(draw, f"{alt} the events.", caption)


def _thinned(curve: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Points of a curve, few enough for a small file."""
    return curve[np.unique(np.linspace(0, len(curve) - 1, _POINTS).round().astype(int))]


def _finish(ax: Any) -> None:
    for axis in (ax.xaxis, ax.yaxis):
        ticks_of_shares(axis, percent=True)
    ax.legend(loc="lower right")
