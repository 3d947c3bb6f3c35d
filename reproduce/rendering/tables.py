"""Tables that several experiments share: scores of methods on data sets, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from reproduce.intervals import (
    TEST_TO_TRAIN,
    Interval,
    bare_means,
    gaps,
    mean_intervals,
    samples,
    stars,
    to_the_best,
)
from reproduce.methods import METHODS
from reproduce.methods.spaces import SEARCHED
from reproduce.rendering.markdown import (
    NOT_RUN,
    beside,
    cross_table,
    grid,
    known_first,
    number,
)
from reproduce.tasks import PAPER, TASKS, own_metric

#: Metrics that are better where higher; the others are errors and times.
HIGHER = ("AUC", "accuracy", "log score", "quadratic kappa")
STAND_INS = [name for name, task in TASKS.items() if task.stand_in]
#: Metrics of which neither the lowest nor the highest is best.
_NEUTRAL = ("coverage", "width", "crossings", "seconds")
#: The order of the tables of the search.
_SEARCHED_FIRST = [*dict.fromkeys([*SEARCHED, *sorted(METHODS)])]
#: (method, data set or metric) -> values by split and seed.
Values = Mapping[tuple[Any, Any], pd.Series]


def paper_cells(file: str, *columns: str) -> dict[Any, Interval]:
    """Numbers of the paper by some columns of `paper/<file>.csv`, the value and interval last."""
    *keys, value, half = columns
    return {
        tuple(row[key] for key in keys): Interval(row[value], row[half], 0)
        for row in pd.read_csv(PAPER / f"{file}.csv").to_dict("records")
    }


def paper_table_3() -> dict[tuple[str, str], Interval]:
    """The paper's Table 3 by method and our name of the data set."""
    names = {task.paper: name for name, task in TASKS.items()}
    cells = paper_cells("public_datasets", "method", "dataset", "value", "ci95")
    return {(method, names[title]): cell for (method, title), cell in cells.items()}


def scored(
    table: pd.DataFrame, *metrics: str
) -> tuple[dict[tuple[str, str], pd.Series], dict[str, str], dict[str, bool]]:
    """Values by method and data set, the headings of the data sets, and whether lower is better.

    :param metrics: of which a data set has one, such as "AUC" and "RMSE"; that of each task by
        default. Where there may be several a heading names the metric.
    """
    rows = table[table["metric"].isin(metrics)] if metrics else own_metric(table)
    there = dict(zip(rows["dataset"], rows["metric"], strict=True))
    columns = headings(there)
    if len(metrics) != 1:
        columns = {name: f"{title}, {there[name]}" for name, title in columns.items()}
    lower = {name: there[name] not in HIGHER for name in columns}
    return samples(rows, ["method", "dataset"]), columns, lower


def headings(names: Iterable[str], metric: bool = False) -> dict[str, str]:
    """Titles of data sets in the order of the paper, with the metric of the task if asked for."""
    there = set(names)
    return {
        name: f"{task.title}, {task.metric}" if metric else task.title
        for name, task in TASKS.items()
        if name in there
    }


def published(table: pd.DataFrame) -> str:
    """The metric of each task beside the paper's, of the data sets that are the same."""
    values, columns, lower = scored(table[~table["dataset"].isin(STAND_INS)])
    partners = {name: method.paper for name, method in METHODS.items()}
    return beside(mean_intervals(values), paper_table_3(), partners, columns, lower)


def stand_ins(table: pd.DataFrame, *metrics: str) -> str:
    """The scores of data sets that take the place of one of the paper's, beside nothing."""
    values, columns, lower = scored(table[table["dataset"].isin(STAND_INS)], *metrics)
    return grid(mean_intervals(values), columns, lower)


def means(table: pd.DataFrame, *metrics: str) -> str:
    """Mean of every method and data set, the best of a data set in bold."""
    values, columns, lower = scored(table, *metrics)
    return grid(bare_means(values), columns, lower, order=_SEARCHED_FIRST, full_first=True)


def differences(table: pd.DataFrame, reference: str, *metrics: str) -> str:
    """Paired differences of a method to every other, positive where it is better.

    With corrected 95 % intervals; * where the difference is not 0 at the level 0.05 after Holm's
    correction over the data sets, against the method of the row.
    """
    values, columns, lower = scored(table, *metrics)
    cells = to_reference(values, reference, lower)
    return grid(cells, columns, marks=stars(cells, lambda key: key[0]), order=_SEARCHED_FIRST)


def to_reference(
    values: Values, reference: str, lower: Mapping[Any, bool], ratio: float = TEST_TO_TRAIN
) -> dict[tuple[Any, Any], Interval]:
    """By how much one method is better than each other one, in every column that has both."""
    ours = {(m, c): values[reference, c] for m, c in values if (reference, c) in values}
    others = {key: each for key, each in values.items() if key[0] != reference}
    return gaps(ours, others, [name for name in lower if lower[name]], ratio)


def ranked(
    values: Values,
    columns: Mapping[Any, str],
    lower: Mapping[Any, bool],
    order: Iterable[str] | None = None,
    ratio: float = TEST_TO_TRAIN,
    family: bool = False,
) -> str:
    """Means of every method in columns, the best of each in bold; * where one is behind it.

    :param columns: column -> heading.
    :param lower: whether lower is better, of those columns of which one end is best.
    :param order: of the methods; that of `known_first` by default.
    :param ratio: test rows for each training row of random splits, by which the intervals of paired
        differences are corrected; 0 for independent fits.
    :param family: whether a method is behind by Holm's correction over the methods of the column,
        and not by its own interval alone.
    """
    cells: dict[tuple[str, Any], Interval] = {}
    behind: dict[tuple[str, Any], Interval] = {}
    methods = known_first(m for m, _ in values) if order is None else [*order]
    for column in columns:
        there = {m: values[m, column] for m in methods if (m, column) in values}
        scores, to_best = to_the_best(there, lower.get(column, True), ratio)
        cells |= {(method, column): score for method, score in scores.items()}
        if column in lower:
            behind |= {(method, column): gap for method, gap in to_best.items()}
    marks = stars(behind, (lambda key: key[1]) if family else None)
    return grid(cells, columns, lower, marks, methods)


def ranked_scores(table: pd.DataFrame, *metrics: str) -> str:
    """A metric of every method on every data set; that of each task by default."""
    return ranked(*scored(table, *metrics))


def compared(
    table: pd.DataFrame,
    order: Iterable[str] | None = None,
    metrics: Iterable[str] | None = None,
    independent: bool = False,
    family: bool = True,
) -> str:
    """Metrics of one data set, all that are there by default; see `ranked`.

    :param independent: whether every fit has rows of its own, as in a simulation.
    """
    values = samples(table, ["method", "metric"])
    there = {metric for _, metric in values}
    known = [m for m in metrics or dict.fromkeys(table["metric"]) if m in there]
    columns = {metric: metric.replace("|", "\\|") for metric in known}
    lower = {m: m not in HIGHER for m in known if not m.startswith(_NEUTRAL)}
    return ranked(values, columns, lower, order, 0.0 if independent else TEST_TO_TRAIN, family)


def averages(table: pd.DataFrame, metric: str) -> str:
    """Mean of a metric, or median of the seconds of a fit, without an interval."""
    rows = own_metric(table) if metric == "seconds" else table[table["metric"] == metric]
    groups = rows.groupby(["method", "dataset"])
    found = groups["seconds"].median() if metric == "seconds" else groups["value"].mean()
    cells: dict[Any, str] = {key: f"{value:.3g}" for key, value in found.items()}
    order = known_first(method for method, _ in cells)
    return cross_table(cells, order, headings(name for _, name in cells), lacking=NOT_RUN)


def score(table: pd.DataFrame, name: str, method: str, metric: str | None = None) -> str:
    """Mean of a metric of a method on a data set, that of the task by default."""
    rows = table[(table["dataset"] == name) & (table["method"] == method)]
    values = rows.loc[rows["metric"] == (metric or TASKS[name].metric), "value"]
    mean = float(values.mean())
    return NOT_RUN if math.isnan(mean) else number(mean)
