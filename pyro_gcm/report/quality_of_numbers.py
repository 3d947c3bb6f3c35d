"""Errors and calibration of a mean and of the distribution around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.report.content import Block, Fact, Facts, Figure, Figures, Paragraph
from pyro_gcm.report.figures import BLUE, GREY, ORANGE, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, percent, quoted

Array = npt.NDArray[np.float64]
#: Levels of the intervals whose coverage is counted.
_LEVELS = (0.2, 0.5, 0.8, 0.9)
#: Rows that are drawn as points, and rows of which intervals are counted, at most.
_POINTS, _COUNTED = 800, 2_000
_GROUPS = 10


def of_numbers(subject: Subject, scores: dict[str, float]) -> tuple[list[Block], str]:
    """Blocks on a regressor, and a sentence."""
    y, target = np.asarray(subject.y, dtype=np.float64), quoted(subject.words.target)
    r2, rmse = scores.get("r2"), scores["rmse"]
    facts = [
        Fact(amount(y.mean()), "mean", f"Mean of {target} in these rows; it is the base rate."),
        Fact(
            amount(rmse),
            "typical error",
            f"Root mean squared error, in the units of {target}. Always predicting the mean has "
            f"{amount(y.std())}.",
        ),
    ]
    if r2 is not None:
        meaning = (
            "Share of the variance that the predictions explain. 0 is no better than the mean, 1 "
            "is perfect."
        )
        facts.append(Fact(f"{r2:.3f}", "R²", meaning))
    if "log_score" in scores:
        meaning = (
            "Mean logarithm of the density of what came; higher is better. It compares models of "
            "the same rows."
        )
        facts.append(Fact(f"{scores['log_score']:.4f}", "log score", meaning))
    held = _coverage(subject, y)
    told = "; ".join(f"{percent(at)} intervals hold {percent(share)}" for at, share in held.items())
    verdict = (
        "The model gives intervals for the outcome of each row. If they are right, those of "
        f"{percent(0.8)} hold {percent(0.8)} of the outcomes. In {subject.named(_COUNTED)}: {told}."
    )
    figures = [_means(subject, y), _intervals(held, subject.named(_COUNTED))]
    blocks: list[Block] = [Facts(facts), Paragraph(verdict), Figures(figures)]
    in_short = (
        f"The typical error is {amount(rmse)}, where always predicting the mean has "
        f"{amount(y.std())}{'' if r2 is None else f' (R² {r2:.3f})'}; {percent(held[0.9])} of the "
        f"outcomes in {subject.named(_COUNTED)} lie in the intervals of {percent(0.9)}."
    )
    return blocks, in_short


def _coverage(subject: Subject, y: Array) -> dict[float, float]:
    """The share of outcomes inside central intervals, by their level."""
    some, estimator = subject.sample(_COUNTED), subject.estimator
    X, outcomes = subject.X.iloc[some], y[some]
    if hasattr(estimator, "cdf"):
        outermost = 2.0 * np.abs(estimator.cdf(X, outcomes[:, None])[:, 0] - 0.5)
        return {level: float((outermost <= level).mean()) for level in _LEVELS}
    found = {}
    for level in _LEVELS:
        low, high = estimator.predict_interval(X, level).T
        found[level] = float(((outcomes >= low) & (outcomes <= high)).mean())
    return found


def _means(subject: Subject, y: Array) -> Figure:
    p = subject.predictions
    some = subject.sample(_POINTS)
    places = np.argsort(np.argsort(p, kind="stable"), kind="stable")
    groups = places * _GROUPS // len(p)
    table = pd.DataFrame({"predicted": p, "observed": y}).groupby(groups)
    means = table.mean()
    errors = 2.0 * table["observed"].sem().to_numpy()

    def draw(ax: Any) -> None:
        ax.scatter(p[some], y[some], 5, color=GREY, alpha=0.35, linewidths=0, label="single rows")
        low, high = np.quantile(y, [0.005, 0.995])
        left, right = np.quantile(p, [0.005, 0.995])
        ax.plot([low, high], [low, high], color=GREY, linestyle="--", label="equal")
        place = means["predicted"], means["observed"], errors
        ax.errorbar(*place, color=BLUE, marker="o", markersize=4, capsize=3, label="tenths of rows")
        ax.set_xlim(*_with_room(left, right))
        ax.set_ylim(*_with_room(low, high))
        ax.set_xlabel("predicted mean")
        ax.set_ylabel("observed value")
        ax.legend(fontsize="small", frameon=False)

    shown = ", ".join(
        f"{amount(at)} predicted and {amount(came)} observed" for at, came in means.to_numpy()
    )
    caption = (
        "Calibration of the mean. Each point with a bar (two standard errors) is a tenth of the "
        "rows, in the order of their predictions; on the dashed line both agree. The axes leave "
        "out the outermost 1\u00a0% of values."
    )
    return drawn(draw, f"Observed against predicted. Tenths of the rows: {shown}.", caption)


def _with_room(low: float, high: float) -> tuple[float, float]:
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _intervals(held: dict[float, float], rows: str) -> Figure:
    def draw(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="as promised")
        ax.plot([*held], [*held.values()], color=ORANGE, marker="o", label="outcomes")
        ax.xaxis.set_major_formatter("{x:.0%}")
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.set_xlabel("level of the interval")
        ax.set_ylabel("outcomes inside")
        ax.legend(fontsize="small", frameon=False)

    told = ", ".join(f"{percent(share)} at {percent(at)}" for at, share in held.items())
    caption = (
        f"Intervals, in {rows}. Above the dashed line they are wider than needed, below it they "
        "are too narrow."
    )
    return drawn(draw, f"Share of outcomes inside intervals of the model: {told}.", caption)
