"""Discrimination and calibration of a probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyro_gcm.diagnostics import reliability_curve
from pyro_gcm.plots import plot_reliability
from pyro_gcm.report.calibration import fit_axes
from pyro_gcm.report.content import Block, Fact, Facts, Figure, Figures, Paragraph
from pyro_gcm.report.figures import BLUE, GREY, ORANGE, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, counted, percent, quoted, shortened

_BINS = 10


def of_classes(subject: Subject, scores: dict[str, float]) -> tuple[list[Block], str]:
    """Blocks on a classifier, and a sentence."""
    estimator, p = subject.estimator, subject.predictions
    event = subject.y == estimator.classes_[estimator.event_column_]
    rate = float(event.mean())
    happening = subject.words.happening
    facts = [Fact(percent(rate), "base rate", f"Share of these rows in which {happening}.")]
    in_short = f"In {percent(rate)} of these rows {happening}"
    if "auc" in scores:
        facts.append(Fact(f"{scores['auc']:.3f}", "AUC", _meaning_of_auc(scores["auc"])))
        in_short += f"; the AUC is {scores['auc']:.3f} (0.5 is chance, 1 is best)"
    facts.append(
        Fact(
            percent(scores["accuracy"]),
            "accuracy",
            "Share of rows whose more probable class was right. Always saying the more frequent "
            f"class is right in {percent(max(rate, 1.0 - rate))}.",
        )
    )
    facts.append(_log_score(scores["log_score"], rate))
    curve = reliability_curve(p, event.astype(float), bins=_BINS)
    distance = (curve["observed"] - curve["predicted"]).abs()
    close = int((distance <= 2.0 * curve["standard_error"]).sum())
    verdict = (
        f"On average the model predicts {percent(subject.average)}, and the event came in "
        f"{percent(rate)} of the rows. In {close} of {counted(len(curve), 'group')} of rows with "
        "similar predictions the observed rate agrees with the predicted one within what chance "
        "allows (two standard errors)."
    )
    blocks: list[Block] = [Facts(facts)]
    if "auc" not in scores:
        blocks.append(Paragraph("All rows have the same outcome, so there is no AUC.", "note"))
    figures = [_calibration(curve, rate, happening), _distribution(subject, event)]
    return [*blocks, Paragraph(verdict), Figures(figures)], f"{in_short}."


def _meaning_of_auc(auc: float) -> str:
    return (
        f"Of 100 pairs of a row with the event and one without, {100 * auc:.0f} are in the right "
        "order. 50 is chance."
    )


def _log_score(score: float, rate: float) -> Fact:
    at = np.array([rate, 1.0 - rate])
    alone = float((at[at > 0.0] * np.log(at[at > 0.0])).sum())
    meaning = (
        "Mean logarithm of the probability of what came; higher is better. Always predicting the "
        f"base rate has {alone:.4f}."
    )
    return Fact(f"{score:.4f}", "log score", meaning)


def _calibration(curve: Any, rate: float, happening: str) -> Figure:
    def draw(ax: Any) -> None:
        plot_reliability(curve, label="groups of rows", ax=ax)
        ax.axhline(rate, color=GREY, linewidth=1, linestyle=":", label="base rate")
        fit_axes(ax, [curve])

    shown = ", ".join(
        f"{percent(at)} predicted and {percent(came)} observed"
        for at, came in zip(curve["predicted"], curve["observed"], strict=True)
    )
    caption = (
        "Calibration. Rows with similar predictions form a group; a point above the dashed line "
        "says that the event came more often than predicted. Bars are two standard errors. The "
        "axes end where the data do."
    )
    return drawn(draw, f"Calibration curve of: {happening}. Groups of rows: {shown}.", caption)


def _distribution(subject: Subject, event: Any) -> Figure:
    p, words = subject.predictions, subject.words
    parts = ((~event, BLUE, "-", words.labels[0]), (event, ORANGE, "--", words.labels[1]))

    def draw(ax: Any) -> None:
        edges = np.histogram_bin_edges(p, 30)
        for rows, color, line, label in parts:
            if rows.any():
                share = np.full(int(rows.sum()), 1.0 / rows.sum())
                ax.hist(p[rows], edges, weights=share, color=color, alpha=0.25)
                options = {"color": color, "linestyle": line, "histtype": "step"}
                name = f"outcome: {quoted(shortened(label))}"
                ax.hist(p[rows], edges, weights=share, label=name, **options)
        ax.xaxis.set_major_formatter("{x:.0%}" if np.ptp(edges) > 0.05 else "{x:.1%}")
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.set_xlabel("predicted probability")
        ax.set_ylabel("share of the rows with that outcome")
        ax.legend(fontsize="small", frameon=False)

    medians = ", ".join(
        f"{amount(100 * float(np.median(p[rows])))} % where {quoted(label)} came"
        for rows, _, _, label in parts
        if rows.any()
    )
    caption = (
        "Discrimination. How predictions are distributed in rows where the event came and in "
        "those where it did not; the less the two overlap, the better the model tells them apart."
    )
    alt = f"Histograms of the predicted probability by outcome. Medians: {medians}."
    return drawn(draw, alt, caption)
