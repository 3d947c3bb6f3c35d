"""The tables of the report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from reproduce.auctions import VARIANTS
from reproduce.intervals import (
    TEST_TO_TRAIN,
    Interval,
    Place,
    mean_interval,
    paired_interval,
    ranking,
    samples,
)
from reproduce.markdown import NOT_RUN, beside, grid, known_first, markdown, shown
from reproduce.methods import METHODS
from reproduce.simulation import LEVELS
from reproduce.tasks import PAPER, TASKS, own_metric

#: Settings that are the same for every method of a data set, and not searched.
_SHARED = {
    *("epochs", "batch_size", "optimizer", "schedule", "validation", "num_particles"),
    *("num_samples", "rows", "steps", "elbo", "noise", "revenue_map"),
}
LEVEL_METRICS = {f"MAE r={level}": f"r = {level}" for level in LEVELS}


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


def _titles(names: Iterable[str], metric: bool = True) -> dict[str, str]:
    """Headings of the data sets among some names, in the order of the paper."""
    there = set(names)
    return {
        name: f"{task.title}, {task.metric}" if metric else task.title
        for name, task in TASKS.items()
        if name in there
    }


def _lower(names: Iterable[str]) -> dict[str, bool]:
    return {name: TASKS[name].lower_is_better for name in names}


def sizes(table: pd.DataFrame) -> str:
    """Rows and dimensions of the data sets, ours and the paper's."""

    def text(value: Any) -> str:
        if pd.isna(value):
            return ""
        return f"{value:,.0f}" if isinstance(value, float | int) else str(value)

    columns = ["examples", "x_dim", "r_dim", "target"]
    rows = []
    for row in table.to_dict("records"):
        positive = "" if pd.isna(row["positive"]) else f"{row['positive']:.1%}"
        equal = {"True": "yes", "False": "no"}.get(str(row["equal"]), "")
        ours, paper = ([text(row[f"{side}{c}"]) for c in columns] for side in ("", "paper "))
        rows.append([row["dataset"], row["variant"], *ours, positive, *paper, equal])
    header = ["Data set", "Variant", "Rows", "x", "r", "Target", "Positive"]
    more = ["Paper: rows", "Paper: x", "Paper: r", "Paper: target", "Equal"]
    return markdown([*header, *more], rows)


def quantiles(table: pd.DataFrame) -> str:
    """Mean absolute error of every method at every level."""
    cells = intervals(table, "method", "metric")
    return grid(cells, LEVEL_METRICS, dict.fromkeys(LEVEL_METRICS, True))


def quantiles_beside_paper(table: pd.DataFrame) -> str:
    """The same, with the paper's Table 1."""
    paper = paper_cells("quantile_mae", "method", "r", "mae", "ci95")
    theirs = {(method, f"MAE r={level}"): cell for (method, level), cell in paper.items()}
    rows = {method: method for method in known_first(table["method"])}
    lower = dict.fromkeys(LEVEL_METRICS, True)
    return beside(intervals(table, "method", "metric"), theirs, rows, LEVEL_METRICS, lower)


def differences_to_gcm(table: pd.DataFrame) -> str:
    """Paired difference of the errors, method minus GCM; * where its interval excludes 0."""
    values = samples(table, ["method", "metric"])
    cells = {
        (method, metric): paired_interval(each, values["GCM", metric])
        for (method, metric), each in values.items()
        if method != "GCM" and ("GCM", metric) in values
    }
    marks = {key: "*" for key, cell in cells.items() if cell.excludes(0.0)}
    return grid(cells, LEVEL_METRICS, marks=marks)


def published(table: pd.DataFrame) -> str:
    """Table 3: ours, and the paper's where the data set is the same."""
    rows = own_metric(table)
    same = [name for name, task in TASKS.items() if task.paper and not task.stand_in]
    columns = _titles(same)
    ours = intervals(rows[rows["dataset"].isin(same)], "method", "dataset")
    methods = known_first([*rows["method"], *(m for m, each in METHODS.items() if each.paper)])
    beside_ours = {m: METHODS[m].paper if m in METHODS else None for m in methods}
    return beside(ours, paper_table_3(), beside_ours, columns, _lower(same))


def own_scores(table: pd.DataFrame) -> str:
    """Mean and plain interval of the metric of every task, compared with nothing."""
    rows = own_metric(table)
    columns = _titles(rows["dataset"])
    return grid(intervals(rows, "method", "dataset"), columns, _lower(columns))


def stand_ins(table: pd.DataFrame) -> str:
    """The scores of data sets that take the place of one of the paper's."""
    names = [name for name, task in TASKS.items() if task.stand_in]
    return own_scores(table[table["dataset"].isin(names)])


def places(
    table: pd.DataFrame, name: str, metric: str | None = None, against: str | None = None
) -> list[Place]:
    """The ranking of a data set, with corrected intervals of the paired differences.

    :param metric: that of the task by default.
    :param against: the method that all are compared with; the first by default.
    """
    task = TASKS[name]
    lower = task.lower_is_better if metric is None else metric == "calibration error"
    rows = table[(table["dataset"] == name) & (table["metric"] == (metric or task.metric))]
    values = samples(rows, "method")
    ordered = {method: values[method] for method in known_first(values)}
    return ranking(ordered, lower, TEST_TO_TRAIN, against)


def ranked_scores(table: pd.DataFrame, metric: str | None = None) -> str:
    """Mean of a metric; * where the corrected interval of the difference to the first excludes 0.

    :param metric: that of each task by default.
    """
    rows = own_metric(table) if metric is None else table[table["metric"] == metric]
    columns = _titles(rows["dataset"], metric is None)
    lower = _lower(columns) if metric is None else dict.fromkeys(columns, "error" in metric)
    cells, marks = {}, {}
    for name in columns:
        for place in places(rows, name, metric):
            cells[place.method, name] = place.score
            if place.behind is not None and place.behind.excludes(0.0):
                marks[place.method, name] = "*"
    return grid(cells, columns, lower, marks)


def averages(table: pd.DataFrame, metric: str) -> str:
    """Mean of a metric, or median of the seconds of a fit, without an interval."""
    rows = own_metric(table) if metric == "seconds" else table[table["metric"] == metric]
    groups = rows.groupby(["method", "dataset"])
    found = groups["seconds"].median() if metric == "seconds" else groups["value"].mean()
    columns = _titles(rows["dataset"], False)
    lines = [
        [m, *(f"{found[m, n]:.3g}" if (m, n) in found.index else NOT_RUN for n in columns)]
        for m in known_first(rows["method"])
    ]
    return markdown(["Method", *columns.values()], lines)


def standings(table: pd.DataFrame, before: pd.DataFrame, *ours: str) -> str:
    """The method that was first before, and the score, place and difference to it of ours.

    :param before: results that the first of a data set is read from: the same or earlier ones.
    """
    lines = []
    columns = _titles(set(table["dataset"]) & set(before["dataset"]))
    for name, title in columns.items():
        first = places(before, name)[0].method
        rows = table[table["dataset"] == name]
        if first not in set(rows["method"]):
            continue  # nothing to compare with
        ranked = places(rows, name, against=first)
        texts = {}
        for at, place in enumerate(ranked, start=1):
            behind = ""
            if place.behind is not None:
                mark = "*" if place.behind.excludes(0.0) else ""
                behind = f", behind {shown(place.behind, mark=mark)}"
            texts[place.method] = f"{shown(place.score)}, place {at} of {len(ranked)}{behind}"
        firsts = f"{first}: {texts[first]}"
        lines.append([title, firsts, *(texts.get(method, NOT_RUN) for method in ours)])
    return markdown(["Data set", "First", *ours], lines)


def settings(table: pd.DataFrame) -> str:
    """The choice of the search: the values of the grid, then the method's own settings by name."""
    columns = _titles(table["dataset"], False) or {name: "Chosen" for name in set(table["dataset"])}
    chosen = {
        key: "; ".join(_searched(key[0], text) for text in sorted(set(rows["settings"])))
        for key, rows in table.groupby(["method", "dataset"])
    }
    lines = [
        [method, *(chosen.get((method, name), NOT_RUN) for name in columns)]
        for method in known_first(table["method"])
    ]
    return markdown(["Method", *columns.values()], lines)


def _searched(method: str, text: str) -> str:
    options = json.loads(text)
    shared = [name for name in METHODS[method].grid if name in options]
    own = [name for name in options if name not in {*shared, *_SHARED}]
    values = " / ".join(f"{options[name]:g}" for name in shared)
    return ", ".join([values, *(f"{name} {options[name]}" for name in own)])


def ablation(table: pd.DataFrame, variant: str, method: str) -> str:
    """N down, D across: AUC of a method; the paper's beside it where the label is the published."""
    rows = table[(table["method"] == method) & (table["variant"] == variant)]
    paper = paper_cells("ablation_adult", "method", "sample_number", "latent_dim", "auc", "ci95")
    theirs = {(n, d): cell for (m, n, d), cell in paper.items() if m == method}
    theirs = theirs if variant == "published" else {}
    ours = intervals(rows, "N", "D")
    numbers, dimensions = (sorted({key[axis] for key in [*ours, *theirs]}) for axis in (0, 1))
    ours, theirs = ({(f"N = {n}", d): c for (n, d), c in each.items()} for each in (ours, theirs))
    lines = {f"N = {n}": f"N = {n}" for n in numbers}
    return beside(ours, theirs, lines, {d: f"D = {d}" for d in dimensions})


def times(wide: pd.DataFrame) -> str:
    """Milliseconds: a row a method and treatment of x, a column a number of r."""
    rows = [
        [str(method), str(treatment), *[f"{value:.2f}" for value in values]]
        for (method, treatment), values in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    return markdown(["Method", "x", *[f"R = {count}" for count in wide.columns]], rows)


def implicit(table: pd.DataFrame) -> str:
    """Scores of the forms and objectives, and the paired differences of two of them to GCM's."""
    metric = own_metric(table)["metric"].iloc[0]
    values = samples(table, ["method", "metric"])
    lines = []
    for method in known_first(table["method"]):
        line = [method]
        for name in (metric, "log score", "calibration error"):
            line.append(shown(replace(mean_interval(values[method, name]), half=math.nan)))
            if name != "calibration error":
                gcm, gap = values.get(("GCM", name)), ""
                if method != "GCM" and gcm is not None:
                    cell = paired_interval(values[method, name], gcm, TEST_TO_TRAIN)
                    gap = shown(cell, mark="*" if cell.excludes(0.0) else "")
                line.append(gap)
        lines.append(line)
    header = ["Method", metric, "minus GCM", "Log score", "minus GCM", "Calibration error"]
    return markdown(header, lines)


def auctions(table: pd.DataFrame) -> str:
    """Scores by what the model was trained on."""
    cells = intervals(table, "metric")
    names = [metric for (metric,) in cells if metric.endswith(VARIANTS[0])]
    lines = []
    for name in names:
        stem = name.removesuffix(f", {VARIANTS[0]}")
        lines.append([stem, *(shown(cells.get((f"{stem}, {variant}",))) for variant in VARIANTS)])
    return markdown(["", *VARIANTS], lines)


def claims(sources: Mapping[str, Mapping[tuple[str, str], float]]) -> str:
    """What the paper's section 4.2 concludes from means, in each source of means."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for name, method in METHODS.items():
        if method.paper == name:
            kinds[method.strict].append(name)
    rows = [["IGCM is better than GCM", *(_ahead(means) for means in sources.values())]]
    for method, strict, among in (("GCM", True, "strict"), ("IGCM", False, "other")):
        others = kinds[strict]
        texts = [_place(means, method, others) for means in sources.values()]
        rows.append([f"Place of {method} among the {among} methods ({', '.join(others)})", *texts])
    return markdown(["Section 4.2 compares", *sources], rows)


def _better(name: str, first: float, second: float) -> bool:
    return first < second if TASKS[name].lower_is_better else first > second


def _ahead(means: Mapping[tuple[str, str], float]) -> str:
    both = [name for name in TASKS if {("GCM", name), ("IGCM", name)} <= set(means)]
    ahead = [name for name in both if _better(name, means["IGCM", name], means["GCM", name])]
    return f"on {len(ahead)} of {len(both)}: {', '.join(TASKS[name].title for name in ahead)}"


def _place(means: Mapping[tuple[str, str], float], method: str, among: list[str]) -> str:
    ranks = []
    for name in TASKS:
        own = means.get((method, name), math.nan)
        others = [means.get((other, name), math.nan) for other in among]
        lacking = any(math.isnan(value) for value in [own, *others])
        ranks.append("–" if lacking else str(1 + sum(_better(name, v, own) for v in others)))
    return ", ".join(ranks)
