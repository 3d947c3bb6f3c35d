"""Scores and calibration of the probabilities of ordered levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyro_gcm.diagnostics import reliability_curve
from pyro_gcm.plots import plot_reliability
from pyro_gcm.report.calibration import fit_axes
from pyro_gcm.report.content import Block, Fact, Facts, Figure, Figures, Paragraph
from pyro_gcm.report.figures import BLUE, ORANGE, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, counted, listed, percent, quoted, shortened

#: Levels whose calibration is drawn, at most.
_MOST = 4


def of_levels(subject: Subject, scores: dict[str, float]) -> tuple[list[Block], str]:
    """Blocks on an ordinal model, and a sentence."""
    classes, labels = subject.estimator.classes_, subject.words.labels
    places = np.array([{c: at for at, c in enumerate(classes.tolist())}[v] for v in subject.y])
    came = np.bincount(places, minlength=len(classes)) / len(places)
    predicted = subject.estimator.predict_proba(subject.X).mean(0)
    error = float(np.abs(subject.predictions - places).mean())
    alone = float(np.abs(np.median(places) - places).mean())
    most = int(came.argmax())
    bases = [f"{quoted(name)} {percent(share)}" for name, share in zip(labels, came, strict=True)]
    facts = [
        Fact(
            percent(scores["accuracy"]),
            "accuracy",
            "Share of rows whose most probable level was right. Always saying "
            f"{quoted(labels[most])} is right in {percent(came[most])}.",
        ),
        Fact(
            amount(error),
            "mean distance",
            "Places between the predicted mean place and the level that came. Always saying the "
            f"middle row's level has {amount(alone)}.",
        ),
        Fact(
            f"{scores['log_score']:.4f}",
            "log score",
            "Mean logarithm of the probability of the level that came; higher is better. Always "
            f"predicting the base rates has {(came[came > 0] * np.log(came[came > 0])).sum():.4f}.",
        ),
    ]
    blocks: list[Block] = [
        Facts(facts),
        Paragraph(f"Base rates of the levels in these rows: {listed(bases)}."),
        Figures([_shares(labels, came, predicted), _calibration(subject, places)]),
    ]
    in_short = (
        f"The most probable level is right in {percent(scores['accuracy'])} of these rows, where "
        f"always saying {quoted(labels[most])} is right in {percent(came[most])}."
    )
    return blocks, in_short


def _shares(labels: Any, came: Any, predicted: Any) -> Figure:
    def draw(ax: Any) -> None:
        at = np.arange(len(labels))
        ax.bar(at - 0.2, came, 0.4, color=ORANGE, label="came")
        ax.bar(at + 0.2, predicted, 0.4, color=BLUE, hatch="///", edgecolor="w", label="predicted")
        ax.set_xticks(at, [*map(shortened, labels)], rotation=30 if len(labels) > 5 else 0)
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.set_ylabel("share of the rows")
        ax.legend(fontsize="small", frameon=False)

    shown = ", ".join(
        f"{quoted(name)} {percent(one)} came and {percent(other)} predicted"
        for name, one, other in zip(labels, came, predicted, strict=True)
    )
    caption = "How often each level came, and how often the model says that it comes on average."
    return drawn(draw, f"Shares of the levels: {shown}.", caption)


def _calibration(subject: Subject, places: Any) -> Figure:
    """Calibration of the probabilities that y is at or above a level, for the first few."""
    labels = subject.words.labels
    above = subject.estimator.predict_cumulative(subject.X)
    drawn_levels = list(range(1, min(len(labels), _MOST + 1)))

    curves = {
        level: reliability_curve(
            np.clip(above[:, level - 1], 0.0, 1.0), (places >= level).astype(float), bins=6
        )
        for level in drawn_levels
    }

    def draw(ax: Any) -> None:
        for level, curve in curves.items():
            plot_reliability(curve, label=f"{quoted(shortened(labels[level]))} or above", ax=ax)
        fit_axes(ax, [*curves.values()])

    caption = (
        "Calibration of the probability of at least a level. Rows with similar predictions form a "
        "group; on the dashed line predicted and observed rates agree. Bars are two standard "
        "errors."
    )
    names = listed([quoted(labels[level]) for level in drawn_levels])
    alt = f"Calibration curves of {counted(len(drawn_levels), 'threshold')}: at or above {names}."
    return drawn(draw, alt, caption)
