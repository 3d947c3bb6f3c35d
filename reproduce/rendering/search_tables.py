"""Tables of the search: means, and differences to one method with Holm's correction."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from reproduce.intervals import LEVEL, TEST_TO_TRAIN, holm, mean_interval, paired_interval, samples
from reproduce.methods.spaces import SEARCHED
from reproduce.rendering.markdown import NOT_RUN, Cells, Lower, grid
from reproduce.rendering.tables import HIGHER
from reproduce.tasks import TASKS


def means(table: pd.DataFrame, *metrics: str) -> str:
    """Mean of a metric of every method and data set, the best of a data set in bold.

    :param metrics: of which a data set has one, such as "AUC" and "RMSE".
    """
    values = _values(table, *metrics)
    cells = {key: replace(mean_interval(v), half=math.nan) for key, v in values.items()}
    columns, lower = _columns(table, *metrics)
    return _grid(cells, columns, lower)


def differences(table: pd.DataFrame, reference: str, *metrics: str) -> str:
    """Paired differences of a method to every other, positive where it is better.

    With corrected 95 % intervals; * where the difference is not 0 at the level 0.05 after Holm's
    correction over the data sets, against the method of the row.
    """
    values = _values(table, *metrics)
    columns, lower = _columns(table, *metrics)
    cells = {}
    for (method, name), other in values.items():
        if method != reference and (reference, name) in values:
            sign = -1.0 if lower[name] else 1.0
            ours = values[reference, name]
            cells[method, name] = paired_interval(sign * ours, sign * other, TEST_TO_TRAIN)
    marks: dict[tuple[str, str], str] = {}
    for method in {method for method, _ in cells}:
        family = {key: cell.p_value for key, cell in cells.items() if key[0] == method}
        marks |= {key: "*" if p < LEVEL else "" for key, p in holm(family).items()}
    return _grid(cells, columns, marks=marks)


def _grid(
    cells: Cells,
    columns: dict[str, str],
    lower: Lower | None = None,
    marks: dict[tuple[str, str], str] | None = None,
) -> str:
    """A table in the order of the methods of the search."""
    there = [method for method, _ in cells]
    order = dict.fromkeys([*SEARCHED, *sorted(there)])
    if not there:
        return f"{NOT_RUN.capitalize()}."
    return grid(cells, columns, lower, marks, order, full_first=True)


def _values(table: pd.DataFrame, *metrics: str) -> dict[tuple[str, str], pd.Series]:
    """(method, data set) -> the values of its metric."""
    return samples(table[table["metric"].isin(metrics)], ["method", "dataset"])


def _columns(table: pd.DataFrame, *metrics: str) -> tuple[dict[str, str], dict[str, bool]]:
    """Data set -> heading, and whether lower is better, in the order of the tasks.

    The heading names the metric where data sets have different ones.
    """
    rows = table[table["metric"].isin(metrics)]
    there = dict(zip(rows["dataset"], rows["metric"], strict=True))
    several = len(metrics) > 1
    columns = {
        name: f"{task.title}, {there[name]}" if several else task.title
        for name, task in TASKS.items()
        if name in there
    }
    return columns, {name: there[name] not in HIGHER for name in columns}
