"""Tables that several experiments share: scores of methods on data sets, in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from reproduce.intervals import (
    LEVEL,
    TEST_TO_TRAIN,
    Interval,
    Place,
    holm,
    mean_interval,
    ranking,
    samples,
)
from reproduce.methods import METHODS
from reproduce.rendering.markdown import NOT_RUN, beside, grid, known_first, markdown, shown
from reproduce.tasks import PAPER, TASKS, own_metric

#: Settings that are the same for every method of a data set, and not searched.
_SHARED = {
    *("epochs", "batch_size", "optimizer", "schedule", "validation", "num_particles"),
    *("num_samples", "rows", "steps", "elbo", "noise", "revenue_map"),
}


def intervals(table: pd.DataFrame, *by: str) -> dict[Any, Interval]:
    """Mean and plain interval of every group of rows."""
    return {key: mean_interval(values) for key, values in samples(table, [*by]).items()}


def paper_cells(file: str, *columns: str) -> dict[Any, Interval]:
    """Numbers of the paper by some columns of `paper/<file>.csv`, the value and interval last."""
    *keys, value, half = columns
    return {
        tuple(row[key] for key in keys): Interval(row[value], row[half], 0)
        for row in pd.read_csv(PAPER / f"{file}.csv").to_dict("records")
    }


def paper_table_3() -> dict[tuple[str, str], Interval]:
    """The paper's Table 3 by method and our name of the data set."""
    names = {task.paper: name for name, task in TASKS.items() if task.paper}
    cells = paper_cells("public_datasets", "method", "dataset", "value", "ci95")
    return {(method, names[title]): cell for (method, title), cell in cells.items()}


def titles(names: Iterable[str], metric: bool = True) -> dict[str, str]:
    """Headings of the data sets among some names, in the order of the paper."""
    there = set(names)
    return {
        name: f"{task.title}, {task.metric}" if metric else task.title
        for name, task in TASKS.items()
        if name in there
    }


def _lower(names: Iterable[str]) -> dict[str, bool]:
    return {name: TASKS[name].lower_is_better for name in names}


def published(table: pd.DataFrame) -> str:
    """The metric of each task beside the paper's, of the data sets that are the same."""
    names = [name for name, task in TASKS.items() if task.paper and not task.stand_in]
    rows = own_metric(table[table["dataset"].isin(names)])
    partners = {name: method.paper for name, method in METHODS.items()}
    ours = intervals(rows, "method", "dataset")
    return beside(ours, paper_table_3(), partners, titles(names), _lower(names))


def seeds(table: pd.DataFrame) -> str:
    """How many seeds every method has on each data set."""
    counts = table.groupby(["dataset", "method"])["seed"].nunique().groupby("dataset").min()
    if counts.nunique() == 1:
        return f"{counts.iloc[0]} on each data set"
    there = [(name, task.title) for name, task in TASKS.items() if name in counts]
    return ", ".join(f"{counts[name]} on {title}" for name, title in there)


def stand_ins(table: pd.DataFrame) -> str:
    """The scores of data sets that take the place of one of the paper's."""
    names = [name for name, task in TASKS.items() if task.stand_in]
    return own_scores(table[table["dataset"].isin(names)])


def own_scores(table: pd.DataFrame) -> str:
    """Mean and plain interval of the metric of each task, compared with nothing."""
    rows = own_metric(table)
    columns = titles(rows["dataset"])
    return grid(intervals(rows, "method", "dataset"), columns, _lower(columns))


def places(
    table: pd.DataFrame, name: str, metric: str | None = None, against: str | None = None
) -> list[Place]:
    """The ranking of a data set, with corrected intervals of the paired differences.

    :param metric: that of the task by default.
    :param against: the method that all are compared with; the first by default.
    """
    task = TASKS[name]
    lower = task.lower_is_better if metric is None else "error" in metric
    rows = table[(table["dataset"] == name) & (table["metric"] == (metric or task.metric))]
    values = samples(rows, "method")
    ordered = {method: values[method] for method in known_first(values)}
    return ranking(ordered, lower, TEST_TO_TRAIN, against)


def ranked(
    values: Mapping[Any, Mapping[str, pd.Series]],
    columns: Mapping[Any, str],
    lower: Mapping[Any, bool],
    order: Iterable[str] | None = None,
    ratio: float = TEST_TO_TRAIN,
    family: bool = False,
) -> str:
    """Means of every method in columns, the best of each in bold; * where one is behind it.

    :param values: column -> method -> values.
    :param columns: column -> heading.
    :param lower: whether lower is better, of those columns of which one end is best.
    :param order: of the methods; that of `known_first` by default.
    :param ratio: test rows for each training row of random splits, by which the intervals of paired
        differences are corrected; 0 for independent fits.
    :param family: whether a method is behind by Holm's correction over the methods of the column,
        and not by its own interval alone.
    """
    cells: dict[tuple[str, Any], Interval] = {}
    marks: dict[tuple[str, Any], str] = {}
    order = None if order is None else [*order]
    for column, of in values.items():
        there = known_first(of) if order is None else [name for name in order if name in of]
        places = ranking({name: of[name] for name in there}, lower.get(column, True), ratio)
        gaps = {place.method: place.behind for place in places if place.behind}
        cells |= {(place.method, column): place.score for place in places}
        if column in lower and family:
            p_values = holm({name: gap.p_value for name, gap in gaps.items()})
            marks |= {(name, column): "*" if p < LEVEL else "" for name, p in p_values.items()}
        elif column in lower:
            marks |= {(name, column): star(gap) for name, gap in gaps.items()}
    return grid(cells, columns, lower, marks, order)


def ranked_scores(table: pd.DataFrame, metric: str | None = None) -> str:
    """A metric of every method on every data set; that of each task by default."""
    rows = own_metric(table) if metric is None else table[table["metric"] == metric]
    columns = titles(rows["dataset"], metric is None)
    lower = _lower(columns) if metric is None else dict.fromkeys(columns, "error" in metric)
    values = {name: samples(rows[rows["dataset"] == name], "method") for name in columns}
    return ranked(values, columns, lower)


def star(difference: Interval | None) -> str:
    """An asterisk where the interval of a difference excludes 0."""
    return "*" if difference is not None and difference.excludes(0.0) else ""


def standings(table: pd.DataFrame, before: pd.DataFrame, *ours: str) -> str:
    """The method that was first before, and the score, place and difference to it of ours.

    :param before: results that the first of a data set is read from: the same or earlier ones.
    """
    lines = []
    for name, title in titles(set(table["dataset"]) & set(before["dataset"])).items():
        first = places(before, name)[0].method
        rows = table[table["dataset"] == name]
        if first not in set(rows["method"]):
            continue  # nothing to compare with
        ranked, texts = places(rows, name, against=first), {}
        for at, place in enumerate(ranked, start=1):
            gap = place.behind
            behind = "" if gap is None else f", behind {shown(gap, mark=star(gap))}"
            texts[place.method] = f"{shown(place.score)}, place {at} of {len(ranked)}{behind}"
        lines.append(
            [title, f"{first}: {texts[first]}", *(texts.get(method, NOT_RUN) for method in ours)]
        )
    return markdown(["Data set", "First", *ours], lines)


def averages(table: pd.DataFrame, metric: str) -> str:
    """Mean of a metric, or median of the seconds of a fit, without an interval."""
    rows = own_metric(table) if metric == "seconds" else table[table["metric"] == metric]
    groups = rows.groupby(["method", "dataset"])
    found = groups["seconds"].median() if metric == "seconds" else groups["value"].mean()
    cells = {key: f"{value:.3g}" for key, value in found.items()}
    return _texts(cells, titles(rows["dataset"], False))


def settings(table: pd.DataFrame) -> str:
    """The choice of the search: the values of the grid, then the method's own settings by name."""
    columns = titles(table["dataset"], False) or dict.fromkeys(set(table["dataset"]), "Chosen")
    cells = {
        (method, name): "; ".join(_searched(str(method), s) for s in sorted(set(rows["settings"])))
        for (method, name), rows in table.groupby(["method", "dataset"])
    }
    return _texts(cells, columns)


def _texts(cells: dict[Any, str], columns: dict[str, str]) -> str:
    lines = [
        [method, *(cells.get((method, name), NOT_RUN) for name in columns)]
        for method in known_first(method for method, _ in cells)
    ]
    return markdown(["Method", *columns.values()], lines)


def _searched(method: str, text: str) -> str:
    options = json.loads(text)
    shared = [name for name in METHODS[method].grid if name in options]
    own = [name for name in options if name not in {*shared, *_SHARED}]
    values = " / ".join(f"{options[name]:g}" for name in shared)
    return ", ".join([values, *(f"{name} {options[name]}" for name in own)])


def score(table: pd.DataFrame, name: str, method: str, metric: str | None = None) -> float:
    """Mean of a metric of a method on a data set, that of the task by default; NaN if not run."""
    metric = metric or TASKS[name].metric
    rows = table[(table["dataset"] == name) & (table["method"] == method)]
    return float(rows.loc[rows["metric"] == metric, "value"].mean())


#: Metrics that are better where higher; the others are errors and times.
HIGHER = ("AUC", "accuracy", "log score", "quadratic kappa")


def every_metric(table: pd.DataFrame) -> str:
    """Every metric of one data set."""
    metrics = list(dict.fromkeys(table["metric"]))
    values = {metric: samples(table[table["metric"] == metric], "method") for metric in metrics}
    return ranked(
        values, dict(zip(metrics, metrics, strict=True)), {m: m not in HIGHER for m in metrics}
    )


#: Metrics of which neither the lowest nor the highest is best.
_NEUTRAL = ("coverage", "width", "crossings", "seconds")


def compared(
    table: pd.DataFrame, order: Sequence[str], metrics: Sequence[str], independent: bool = False
) -> str:
    """Metrics of one data set, with Holm's correction over the methods.

    :param order: of the methods.
    :param independent: whether every fit has rows of its own, as in a simulation.
    """
    rows = table.dropna(subset="value")
    every = {metric: samples(rows[rows["metric"] == metric], "method") for metric in metrics}
    values = {metric: of for metric, of in every.items() if of}
    columns = {metric: metric.replace("|", "\\|") for metric in values}
    lower = {m: m not in HIGHER for m in values if not m.startswith(_NEUTRAL)}
    ratio = 0.0 if independent else TEST_TO_TRAIN
    return ranked(values, columns, lower, order, ratio, family=True)
