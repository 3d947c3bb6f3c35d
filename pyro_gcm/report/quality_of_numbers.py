"""Errors and calibration of a mean and of the distribution around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.plots.axes import GREY, PALETTE
from pyro_gcm.report.page import Block, Fact, Facts, Figure, Figures, Paragraph, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.texts import amount, percent, quoted

Array = npt.NDArray[np.float64]
#: Levels of the intervals whose coverage is counted.
_LEVELS = (0.2, 0.5, 0.8, 0.9)
#: Rows that are drawn as points, and rows of which intervals are counted, at most.
_POINTS, _COUNTED = 800, 2_000
_GROUPS = 10


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
