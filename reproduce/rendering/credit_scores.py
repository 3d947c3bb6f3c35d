"""Tables of credit scores with directions, and who is ahead."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from reproduce.data.credit_tables import TITLES
from reproduce.intervals import (
    LEVEL,
    TEST_TO_TRAIN,
    Interval,
    holm,
    mean_interval,
    paired_interval,
    samples,
)
from reproduce.methods.credit import METHODS
from reproduce.rendering.markdown import grid, markdown

#: The method that the others are compared with.
REFERENCE = "GCMClassifier"
SCORES = ("AUC", "log loss", "Brier score", "calibration error")
METRICS = (*SCORES, "seconds of a fit")
#: Scores whose prices have intervals by resampled test rows.
RESAMPLED = SCORES[:3]
#: With directions, and without.
MODES = ("constrained", "free")


def values_of(table: pd.DataFrame, name: str, mode: str, metric: str) -> dict[str, pd.Series]:
    """The values of every method, in the order of the methods."""
    rows = table[
        (table["dataset"] == name) & (table["variant"] == mode) & (table["metric"] == metric)
    ]
    found = samples(rows, "method")
    return {method: found[method] for method in METHODS if method in found}


def leads(table: pd.DataFrame, name: str, metric: str) -> dict[str, tuple[Interval, float]]:
    """How much better GCMClassifier is than each other method on the same splits, with directions.

    :returns: method -> the paired difference, and its p-value after Holm's correction.
    """
    values = values_of(table, name, MODES[0], metric)
    sign = 1.0 if metric == "AUC" else -1.0
    found = {
        method: paired_interval(sign * values[REFERENCE], sign * of, TEST_TO_TRAIN)
        for method, of in values.items()
        if method != REFERENCE and REFERENCE in values
    }
    adjusted = holm({method: lead.p_value for method, lead in found.items()})
    return {method: (lead, adjusted[method]) for method, lead in found.items()}


def standing(table: pd.DataFrame, metric: str, side: str) -> str:
    """Methods that GCMClassifier is significantly "ahead" of, or "behind", with the tables."""
    sign, told = {"ahead": 1.0, "behind": -1.0}[side], dict[str, list[str]]()
    for name, title in TITLES.items():
        for method, (lead, p) in leads(table, name, metric).items():
            if p < LEVEL and sign * lead.mean > 0.0:
                told.setdefault(method, []).append(title)
    return "; ".join(f"{m} ({', '.join(told[m])})" for m in METHODS if m in told) or "none"


def standings(table: pd.DataFrame) -> str:
    """What `standing` says of every score; others are not significantly apart."""
    rows = [[m, *(standing(table, m, side) for side in ("ahead", "behind"))] for m in SCORES]
    return markdown(["Score", f"{REFERENCE} is ahead of", "behind"], rows)


def _mean(values: pd.Series) -> Interval:
    """A mean that is shown without its interval."""
    return replace(mean_interval(values), half=float("nan"))


def scores(table: pd.DataFrame, name: str) -> str:
    """Means with directions, the best of those on all splits in bold.

    * where the paired difference to GCMClassifier is not 0 at 5 % after Holm's correction.
    """
    means: dict[tuple[str, str], Interval] = {}
    marks: dict[tuple[str, str], str] = {}
    lower: dict[str, bool] = {}
    for metric in METRICS:
        values = values_of(table, name, MODES[0], metric)
        means |= {(m, metric): _mean(v) for m, v in values.items()}
        if metric not in SCORES or REFERENCE not in values:
            continue
        lower[metric] = metric != "AUC"
        for method, (_, p) in leads(table, name, metric).items():
            marks[method, metric] = "*" if p < LEVEL else ""
    there = {metric: metric for metric in METRICS if any(m == metric for _, m in means)}
    return grid(means, there, lower, marks, METHODS, full_first=True)
