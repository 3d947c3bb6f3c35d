"""Whole distributions: GCM beside NGBoost, quantile boosting, isotonic and linear regression.

Ten random 4:1 splits of public sets, and ten simulated ones whose distributions are known.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reproduce.curves import judged
from reproduce.data.ordered_data import REAL, SIMULATED, Array, Table
from reproduce.methods.distribution import METHODS, Predicted
from reproduce.runs import Scores
from reproduce.study import Study

QUICK_ROWS = 150
#: Thresholds of the integral that is the CRPS, the same for all methods.
_THRESHOLDS = 400
_COVERAGES = (0.5, 0.8, 0.95)
#: The metrics of a table, in this order.
METRICS = ("log score", "CRPS", "mean |F - F0|", *(f"coverage {c:.0%}" for c in _COVERAGES))
WIDTHS = (*(f"width {c:.0%}" for c in _COVERAGES), "crossings", "seconds of a fit")


def thresholds(y: Array) -> Array:
    """Middles of equal steps from half a range below training outcomes to half a range above."""
    low, high = y.min(), y.max()
    margin = 0.5 * (high - low)
    edges = np.linspace(low - margin, high + margin, _THRESHOLDS + 1)
    middles: Array = 0.5 * (edges[1:] + edges[:-1])
    return middles


def scores(predicted: Predicted, learn: Table, test: Table) -> Scores:
    """Scores of distributions of test rows; no log score without a density."""
    values = thresholds(learn.y)
    below = predicted.cdf(values)
    gaps = np.square(below - (test.y[:, None] <= values)).sum(1) * (values[1] - values[0])
    found = {"CRPS": float(gaps.mean()), "crossings": predicted.crossings}
    density = predicted.log_density(test.y)
    if density is not None:
        found["log score"] = float(density.mean())
    tails = [0.5 - 0.5 * c for c in _COVERAGES]
    ends = predicted.quantiles(np.array([*tails, *(1.0 - tail for tail in tails)]))
    for place, coverage in enumerate(_COVERAGES):
        low, high = ends[:, place], ends[:, place + len(tails)]
        inside = (low <= test.y) & (test.y <= high)
        found[f"coverage {coverage:.0%}"] = float(inside.mean())
        found[f"width {coverage:.0%}"] = float((high - low).mean())
    if test.truth is not None:
        at = np.quantile(learn.y, np.linspace(0.025, 0.975, 39))
        found["mean |F - F0|"] = float(np.abs(predicted.cdf(at) - test.truth(at)).mean())
    return found


def report(table: pd.DataFrame, name: str) -> str:
    """Scores and coverages of one data set."""
    return judged.report(table, name, METHODS, METRICS)


def widths(table: pd.DataFrame, name: str) -> str:
    """Widths of the intervals of one data set, and the rows in which quantiles cross."""
    return judged.report(table, name, METHODS, WIDTHS)


STUDY = Study(
    *(
        "distribution",
        str(__doc__),
        [*REAL, SIMULATED],
        METHODS,
        judged.runner(METHODS, scores),
        "13",
    ),
    quick={"rows": QUICK_ROWS},
)
