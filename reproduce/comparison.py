"""Tables of one study: every metric of every method, told apart after Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from reproduce.intervals import TEST_TO_TRAIN, Interval, holm, ranking, samples
from reproduce.markdown import grid

#: Level of the tests.
LEVEL = 0.05
#: Metrics that are better where higher.
HIGHER = ("log score", "quadratic kappa")
#: Metrics of which neither the lowest nor the highest is best.
_NEUTRAL = ("coverage", "width", "crossings", "seconds")


def compared(
    table: pd.DataFrame, order: Sequence[str], metrics: Sequence[str], independent: bool = False
) -> str:
    """Means of metrics of one data set with 95 % intervals, the best of each in bold.

    * where the paired difference to the best is not 0 at the level 0.05, after Holm's correction
    over the methods. The intervals and tests are corrected for random splits of one data set.

    :param order: of the methods.
    :param independent: whether every fit has rows of its own, as in a simulation.
    """
    ratio = 0.0 if independent else TEST_TO_TRAIN
    cells: dict[tuple[str, str], Interval] = {}
    marks: dict[tuple[str, str], str] = {}
    lower: dict[str, bool] = {}
    for metric in metrics:
        values = samples(table[table["metric"] == metric].dropna(subset="value"), "method")
        if not values:
            continue
        judged = not metric.startswith(_NEUTRAL)
        if judged:
            lower[metric] = metric not in HIGHER
        ordered = {method: values[method] for method in order if method in values}
        places = ranking(ordered, metric not in HIGHER, ratio)
        tests = {place.method: place.behind.p_value for place in places if place.behind}
        for method, p in holm(tests).items():
            marks[method, metric] = "*" if judged and p < LEVEL else ""
        cells |= {(place.method, metric): place.score for place in places}
    there = {metric for _, metric in cells}
    shown = {name: name.replace("|", "\\|") for name in metrics if name in there}
    return grid(cells, shown, lower, marks, order)
