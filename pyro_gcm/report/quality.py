"""How good predictions are: discrimination, errors and calibration of each kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.diagnostics import kaplan_meier, reliability_curve
from pyro_gcm.plots import plot_reliability, plot_survival
from pyro_gcm.plots.axes import GREY, PALETTE, ticks_of_shares
from pyro_gcm.report.decisions import ranking
from pyro_gcm.report.page import Block, Fact, Facts, Figure, Figures, Paragraph, drawn
from pyro_gcm.report.subject import Subject, amount, counted, listed, percent, quoted, shortened

#: Levels whose calibration is drawn, at most.
_MOST = 4


def of_classes(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on a classifier, and a sentence."""
    estimator, p = subject.estimator, subject.predictions
    event = subject.y == estimator.classes_[estimator.event_column_]
    rate, happening = float(event.mean()), subject.happening()
    held = "held-out rows" if subject.held_out else "rows"
    base_rate = Fact(percent(rate), "base rate", f"Share of these rows in which {happening}.")
    in_short = f"In {percent(rate)} of these {held} {happening}"
    auc: list[Fact] = []
    if "auc" in subject.scores:
        auc, words = ranking(p, event)
        in_short += f"; {words}"
    shares = np.array([(subject.y.astype(str) == label).mean() for label in subject.labels])
    facts = [*auc, base_rate, *_label_scores(subject, shares)]
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
    figures = Figures([calibration({"groups of rows": curve}), _distribution(subject, event)])
    return [*blocks, Paragraph(verdict), figures], f"{in_short}."


def of_levels(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on an ordinal model, and a sentence."""
    labels, classes = subject.labels, subject.estimator.classes_.tolist()
    places = np.array([classes.index(value) for value in subject.y.tolist()])
    observed = np.bincount(places, minlength=len(labels)) / len(places)
    error = float(np.abs(subject.predictions - places).mean())
    alone = float(np.abs(np.median(places) - places).mean())
    accuracy, log_score = _label_scores(subject, observed)
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
    return [Facts(facts), base_rates, Figures([calibration(curves)])], in_short


def _label_scores(subject: Subject, rates: Any) -> list[Fact]:
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


def calibration(curves: Mapping[str, pd.DataFrame]) -> Figure:
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
    p, (first, *others, last) = subject.predictions, subject.labels
    other = "another class" if others else first
    parts = [(~event, PALETTE[0], "-", other), (event, PALETTE[1], "--", last)]
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


Array = npt.NDArray[np.float64]
#: Levels of the intervals whose coverage is counted.
_LEVELS = (0.2, 0.5, 0.8, 0.9)
#: Rows that are drawn as points, and rows with intervals or curves, at most.
_POINTS, _COUNTED = 800, 2_000
#: Groups of rows with similar predictions, and of rows by risk; points of a survival curve.
_GROUPS, _RISKS, _TIMES = 10, ("low risk", "middle risk", "high risk"), 60


def of_numbers(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on a regressor, and a sentence."""
    y, target, scores = np.asarray(subject.y, np.float64), quoted(subject.target), subject.scores
    meanings = {
        "r2": "Share of the variance that the predictions explain. 0 is no better than the mean, "
        "1 is perfect.",
        "log_score": "Mean logarithm of the density of the observed value; higher is better. It "
        "compares models of the same rows.",
    }
    error = (
        f"Root mean squared error, in the units of {target}. Always predicting the mean has "
        f"{amount(y.std())}."
    )
    facts = [
        Fact(amount(y.mean()), "mean", f"Mean of {target} in these rows; it is the base rate."),
        Fact(amount(scores["rmse"]), "typical error", error),
    ]
    for name, label, form in (("r2", "R²", ".3f"), ("log_score", "log score", ".4f")):
        if name in scores:
            facts.append(Fact(format(scores[name], form), label, meanings[name]))
    covered, rows = _coverage(subject, y), subject.sampled(_COUNTED)
    shares = "; ".join(
        f"{percent(level)} intervals hold {percent(share)}" for level, share in covered.items()
    )
    verdict = (
        "The model gives intervals for the outcome of each row. If they are right, those of "
        f"{percent(0.8)} hold {percent(0.8)} of the outcomes. In {rows}: {shares}."
    )
    r2 = f" (R² {scores['r2']:.3f})" if "r2" in scores else ""
    in_short = (
        f"The typical error is {amount(scores['rmse'])}, where always predicting the mean has "
        f"{amount(y.std())}{r2}; {percent(covered[0.9])} of the outcomes in {rows} lie in the "
        f"intervals of {percent(0.9)}."
    )
    return [Facts(facts), Paragraph(verdict), Figures([_means(subject, y)])], in_short


def _coverage(subject: Subject, y: Array) -> dict[float, float]:
    """The share of outcomes inside central intervals, by their level."""
    some, estimator = subject.sample(_COUNTED), subject.estimator
    X, outcomes = subject.X.iloc[some], y[some]
    ends = {level: estimator.predict_interval(X, level).T for level in _LEVELS}
    return {
        level: float(((outcomes >= low) & (outcomes <= high)).mean())
        for level, (low, high) in ends.items()
    }


def _means(subject: Subject, y: Array) -> Figure:
    p, some = subject.predictions, subject.sample(_POINTS)
    places = np.argsort(np.argsort(p, kind="stable"), kind="stable")
    groups = pd.DataFrame({"predicted": p, "observed": y}).groupby(places * _GROUPS // len(p))
    means, errors = groups.mean(), 2.0 * groups["observed"].sem().to_numpy()

    def draw(ax: Any) -> None:
        ax.scatter(p[some], y[some], 5, color=GREY, alpha=0.35, linewidths=0, label="single rows")
        ax.axline((p.mean(), p.mean()), slope=1.0, color=GREY, linestyle="--", label="equal")
        style = {"color": PALETTE[0], "marker": "o", "markersize": 4, "capsize": 3}
        tenths = means["predicted"], means["observed"], errors
        ax.errorbar(*tenths, label="tenths of the rows", **style)
        for values, limit in ((p, ax.set_xlim), (y, ax.set_ylim)):
            low, high = np.quantile(values, [0.005, 0.995])
            room = 0.05 * (high - low) or 1.0
            limit(low - room, high + room)
        ax.set_xlabel("predicted mean")
        ax.set_ylabel("observed value")
        ax.legend()

    shown = ", ".join(
        f"{amount(predicted)} predicted and {amount(observed)} observed"
        for predicted, observed in means.to_numpy()
    )
    caption = (
        "Calibration of the mean. Each point with a bar (two standard errors) is a tenth of the "
        "rows, in the order of their predictions; on the dashed line both agree. The axes leave "
        "out the outermost 1\u00a0% of values."
    )
    return drawn(draw, f"Observed against predicted. Tenths of the rows: {shown}.", caption)


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
    some, rows = subject.sample(_COUNTED), subject.sampled(_COUNTED)
    X, times = subject.X.iloc[some], subject.y[some]
    last, risks = times.lower.numpy(), subject.predictions[some]
    end = float(np.quantile(last[last > 0.0], 0.95)) if (last > 0.0).any() else 1.0
    grid = np.linspace(end / _TIMES, end, _TIMES)
    survival = subject.estimator.predict_survival_function(X, return_array=True, times=grid)
    thirds = np.searchsorted(np.quantile(risks, [1 / 3, 2 / 3]), risks)
    groups = pd.Categorical.from_codes(thirds, pd.Index(_RISKS), ordered=True)
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
