"""Discrimination and calibration of the probabilities of two classes or of ordered levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.diagnostics import reliability_curve
from pyro_gcm.plots import plot_reliability
from pyro_gcm.plots.axes import PALETTE, ticks_of_shares
from pyro_gcm.report.page import Block, Fact, Facts, Figure, Figures, Paragraph, drawn
from pyro_gcm.report.subject import Subject, amount, counted, listed, percent, quoted, shortened

#: Levels whose calibration is drawn, at most.
_MOST = 4


def of_classes(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on a classifier, and a sentence."""
    estimator, p, scores = subject.estimator, subject.predictions, subject.scores
    event = subject.y == estimator.classes_[estimator.event_column_]
    rate, happening = float(event.mean()), subject.happening()
    base_rate = Fact(percent(rate), "base rate", f"Share of these rows in which {happening}.")
    in_short = f"In {percent(rate)} of these rows {happening}"
    auc: list[Fact] = []
    if "auc" in scores:
        meaning = (
            f"Of 100 pairs of a row with the event and one without, {100 * scores['auc']:.0f} are "
            "in the right order. 50 is chance."
        )
        auc = [Fact(f"{scores['auc']:.3f}", "AUC", meaning)]
        in_short += f"; the AUC is {scores['auc']:.3f} (0.5 is chance, 1 is best)"
    facts = [base_rate, *auc, *_scores(subject, np.array([1.0 - rate, rate]))]
    curve = reliability_curve(p, event.astype(float), bins=10)
    distance = (curve["observed"] - curve["predicted"]).abs()
    close = int((distance <= 2.0 * curve["standard_error"]).sum())
    verdict = (
        f"On average the model predicts {percent(subject.average)}. In {close} of "
        f"{counted(len(curve), 'group')} of rows with similar predictions the observed rate agrees "
        "with the predicted one within what chance allows (two standard errors)."
    )
    blocks: list[Block] = [Facts(facts)]
    if not auc:
        blocks.append(Paragraph("All rows have the same outcome, so there is no AUC.", "note"))
    figures = Figures([_calibration({"groups of rows": curve}), _distribution(subject, event)])
    return [*blocks, Paragraph(verdict), figures], f"{in_short}."


def of_levels(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on an ordinal model, and a sentence."""
    labels, classes = subject.labels, subject.estimator.classes_.tolist()
    places = np.array([classes.index(value) for value in subject.y.tolist()])
    observed = np.bincount(places, minlength=len(labels)) / len(places)
    error = float(np.abs(subject.predictions - places).mean())
    alone = float(np.abs(np.median(places) - places).mean())
    accuracy, log_score = _scores(subject, observed)
    meaning = (
        "Places between the predicted mean place and the observed level. Always saying the middle "
        f"row's level has {amount(alone)}."
    )
    facts = [accuracy, Fact(amount(error), "mean distance", meaning), log_score]
    above = subject.estimator.predict_cumulative(subject.X)
    curves = {
        f"{quoted(shortened(labels[level]))} or above": reliability_curve(
            np.clip(above[:, level - 1], 0.0, 1.0), (places >= level).astype(float), bins=6
        )
        for level in range(1, min(len(labels), _MOST + 1))
    }
    rates = [f"{quoted(name)} {percent(rate)}" for name, rate in zip(labels, observed, strict=True)]
    base_rates = Paragraph(f"Base rates of the levels in these rows: {listed(rates)}.")
    in_short = (
        f"The most probable level is right in {accuracy.value} of these rows, where always saying "
        f"{quoted(labels[int(observed.argmax())])} is right in {percent(observed.max())}."
    )
    return [Facts(facts), base_rates, Figures([_calibration(curves)])], in_short


def _scores(subject: Subject, rates: Any) -> list[Fact]:
    """Accuracy and log score, beside those of the base rates of the labels."""
    accuracy = (
        "Share of rows whose most probable outcome was right. Always saying "
        f"{quoted(subject.labels[int(rates.argmax())])} is right in {percent(rates.max())}."
    )
    alone = float((rates[rates > 0.0] * np.log(rates[rates > 0.0])).sum())
    log_score = (
        "Mean logarithm of the probability of the observed outcome; higher is better. Always "
        f"predicting the base rates has {alone:.4f}."
    )
    return [
        Fact(percent(subject.scores["accuracy"]), "accuracy", accuracy),
        Fact(f"{subject.scores['log_score']:.4f}", "log score", log_score),
    ]


def _calibration(curves: Mapping[str, pd.DataFrame]) -> Figure:
    """Calibration curves by their names, whose axes end where the data do."""
    table = pd.concat(curves)
    reach = 2.0 * table["standard_error"]
    ends = pd.concat([table["predicted"], table["observed"] - reach, table["observed"] + reach])
    low, high = ends.clip(0.0, 1.0).agg(["min", "max"])
    room = 0.06 * (high - low) or 0.05

    def draw(ax: Any) -> None:
        for name, curve in curves.items():
            plot_reliability(curve, label=name, ax=ax)
        ax.set_xlim(max(low - room, -0.03), min(high + room, 1.03))
        ax.set_ylim(ax.get_xlim())
        for axis in (ax.xaxis, ax.yaxis):
            ticks_of_shares(axis, percent=True)
        ax.set_ylabel("observed frequency")
        ax.legend(loc="upper left")

    groups = "; ".join(
        f"{name}: {percent(group['predicted'])} predicted and {percent(group['observed'])} observed"
        for name, curve in curves.items()
        for group in curve.to_dict("records")
    )
    caption = (
        "Calibration. Rows with similar predictions form a group; a point above the dashed line "
        "says that the event occurred more often than predicted. Bars are two standard errors. "
        "The axes end where the data do."
    )
    return drawn(draw, f"Calibration curve. Groups of rows: {groups}.", caption)


def _distribution(subject: Subject, event: Any) -> Figure:
    p, labels = subject.predictions, subject.labels
    parts = [(~event, PALETTE[0], "-", labels[0]), (event, PALETTE[1], "--", labels[1])]
    parts = [part for part in parts if part[0].any()]

    def draw(ax: Any) -> None:
        edges = np.histogram_bin_edges(p, 30)
        for rows, color, line, label in parts:
            share = np.full(int(rows.sum()), 1.0 / rows.sum())
            style = {"facecolor": (color, 0.25), "edgecolor": color, "linestyle": line}
            style |= {"histtype": "stepfilled", "label": f"outcome: {quoted(shortened(label))}"}
            ax.hist(p[rows], edges, weights=share, **style)
        for axis in (ax.xaxis, ax.yaxis):
            ticks_of_shares(axis, percent=True)
        ax.set_xlabel("predicted probability")
        ax.set_ylabel("share of the rows with that outcome")
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)

    medians = ", ".join(
        f"{percent(float(np.median(p[rows])))} where it is {quoted(label)}"
        for rows, _, _, label in parts
    )
    caption = (
        "Discrimination. How predictions are distributed in rows with the event and in those "
        "without it; the less the two overlap, the better the model tells them apart."
    )
    alt = f"Histograms of the predicted probability by outcome. Medians: {medians}."
    return drawn(draw, alt, caption)
