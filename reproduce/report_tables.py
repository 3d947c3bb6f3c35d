"""Tables of results as Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reproduce.report_markdown import NOT_RUN, beside, grid, known_first, markdown, shown
from reproduce.report_statistics import (
    PAIR,
    TEST_TO_TRAIN,
    Interval,
    Place,
    mean_interval,
    paired_interval,
    ranking,
    samples,
)
from reproduce.simulation import LEVELS
from reproduce.tasks import PAPER_METRICS, TASKS

#: A row of our Table 3 -> the method of the paper that it stands beside.
PAPER_METHODS = {
    **{name: name for name in ("PosNN", "MM", "SMM", "CMNN", "SMNN", "Hint", "PWL")},
    "GCM": "GCM",
    "IGCM": "IGCM",
    "GCM (literal)": "GCM",
    "IGCM (paper loss)": "IGCM",
}
#: The data set that the paper has and we cannot ship.
LOAN = "Loan Defaulter"
#: Settings that are the same for every method of a data set, and not searched.
_SHARED = {
    *("epochs", "batch_size", "optimizer", "schedule", "validation"),
    *("num_particles", "num_samples", "rows", "steps"),
}
_LEVEL_METRICS = {f"MAE r={level}": f"r = {level}" for level in LEVELS}


def datasets_table(table: pd.DataFrame) -> str:
    """Rows and dimensions, ours and the paper's."""
    columns = ["examples", "x_dim", "r_dim", "target"]

    def text(value: Any) -> str:
        if pd.isna(value):
            return ""
        return value if isinstance(value, str) else f"{int(value):,}"

    rows = []
    for row in table.to_dict("records"):
        same = row["equal"]
        equal = "" if pd.isna(same) else ("yes" if str(same) == "True" else "no")
        ours = [text(row[name]) for name in columns]
        paper = [text(row[f"paper {name}"]) for name in columns]
        positive = "" if pd.isna(row["positive"]) else f"{row['positive']:.1%}"
        rows.append([row["dataset"], row["variant"], *ours, positive, *paper, equal])
    header = ["Data set", "Variant", "Rows", "x", "r", "Target", "Positive"]
    return markdown(
        [*header, "Paper: rows", "Paper: x", "Paper: r", "Paper: target", "Equal"], rows
    )


def quantile_table(table: pd.DataFrame) -> str:
    """Mean absolute error of every method at every level."""
    cells = {key: mean_interval(v) for key, v in samples(table, ["method", "metric"]).items()}
    return grid(
        cells,
        known_first(table["method"]),
        _LEVEL_METRICS,
        lower_is_better=dict.fromkeys(_LEVEL_METRICS, True),
    )


def quantile_differences(table: pd.DataFrame) -> str:
    """Paired difference of every method to GCM; an asterisk where its interval excludes 0."""
    values = samples(table, ["method", "metric"])
    methods = [method for method in known_first(table["method"]) if method != "GCM"]
    cells = {
        (method, metric): paired_interval(values[method, metric], values["GCM", metric])
        for method in methods
        for metric in _LEVEL_METRICS
        if (method, metric) in values and ("GCM", metric) in values
    }
    marks = {key: "*" for key, cell in cells.items() if cell.excludes(0.0)}
    return grid(cells, methods, _LEVEL_METRICS, marks=marks)


def quantile_beside_paper(table: pd.DataFrame, paper: pd.DataFrame) -> str:
    """Three lines a method: ours, the paper's, and whether the intervals meet."""
    ours = {key: mean_interval(v) for key, v in samples(table, ["method", "metric"]).items()}
    theirs = {
        (row["method"], f"MAE r={row['r']}"): Interval(row["mae"], row["ci95"], 0)
        for row in paper.to_dict("records")
    }
    methods = {m: m for m in known_first(table["method"])}
    header = ["Method", "", *[f"r = {level}" for level in LEVELS]]
    return beside(ours, theirs, methods, dict.fromkeys(_LEVEL_METRICS, True), header)


def paper_intervals(paper: pd.DataFrame) -> dict[tuple[str, str], Interval]:
    """The paper's Table 3 by method and title of the data set."""
    return {
        (row["method"], row["dataset"]): Interval(row["value"], row["ci95"], 0)
        for row in paper.to_dict("records")
    }


def published_intervals(table: pd.DataFrame) -> dict[tuple[str, str], Interval]:
    """Ours under the published protocol, by method and title; no stand-in among them."""
    return {
        (method, TASKS[name].title): mean_interval(values)
        for (method, name), values in samples(own_metric(table), ["method", "dataset"]).items()
        if not TASKS[name].stand_in
    }


def own_metric(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with the metric that the paper reports for their data set."""
    metric = table["dataset"].map(lambda name: TASKS[name].metric if name in TASKS else "")
    return table[table["metric"] == metric]


def published_table(table: pd.DataFrame, paper: pd.DataFrame) -> str:
    """Table 3: ours, the paper's and whether the intervals meet."""
    methods = {m: PAPER_METHODS.get(m) for m in [*PAPER_METHODS, *known_first(table["method"])]}
    metrics = {LOAN if task.stand_in else task.title: task.metric for task in TASKS.values()}
    lower = {name: metric == "RMSE" for name, metric in metrics.items()}
    header = ["Method", "", *[f"{name}, {PAPER_METRICS[metrics[name]]}" for name in metrics]]
    ours = published_intervals(table)
    lacking = {LOAN: f"{NOT_RUN}: needs the Zenodo file"}
    return beside(ours, paper_intervals(paper), methods, lower, header, lacking)


def stand_in_table(table: pd.DataFrame) -> str:
    """The stand-ins for data sets, which have no column in the paper."""
    names = [name for name, task in TASKS.items() if task.stand_in]
    return _own_metrics(table[table["dataset"].isin(names)], names)


def checks_table(table: pd.DataFrame) -> str:
    """Linear models and boosting on the published splits."""
    return _own_metrics(table, [name for name in TASKS if name in set(table["dataset"])])


def _own_metrics(table: pd.DataFrame, names: list[str]) -> str:
    rows = own_metric(table)
    cells = {key: mean_interval(v) for key, v in samples(rows, ["method", "dataset"]).items()}
    heads = {name: f"{TASKS[name].title}, {TASKS[name].metric}" for name in names}
    lower = {name: TASKS[name].metric == "RMSE" for name in names}
    return grid(cells, known_first(rows["method"]), heads, lower_is_better=lower)


def places(table: pd.DataFrame, name: str, against: str | None = None) -> list[Place]:
    """The ranking of a data set by its metric, with corrected intervals of the differences.

    :param against: the method that all are compared with; the first by default.
    """
    rows = own_metric(table[table["dataset"] == name])
    values = samples(rows, "method")
    ordered = {method: values[method] for method in known_first(values)}
    return ranking(ordered, TASKS[name].metric == "RMSE", TEST_TO_TRAIN, against)


def verdict(place: Place) -> str:
    """Whether a method can be told from the first."""
    if place.behind is None:
        return "first"
    if math.isnan(place.behind.half):
        return "no interval"
    return "" if place.behind.excludes(0.0) else "not distinguishable"


def ranking_table(table: pd.DataFrame, name: str, extra: Mapping[str, str]) -> str:
    """Methods of a data set by place, with the means of more metrics and the time of a fit.

    :param extra: metric -> its heading.
    """
    rows = table[table["dataset"] == name]
    ranked = places(rows, name)
    most = _fits(rows)
    means = rows.groupby(["method", "metric"])["value"].mean()
    seconds = own_metric(rows).groupby("method")["seconds"].median()
    lines = []
    for number, place in enumerate(ranked, start=1):
        behind = shown(place.behind, most) if place.behind else ""
        more = [_plain(means.get((place.method, metric), math.nan)) for metric in extra]
        score = shown(place.score, most, number == 1)
        time = f"{seconds[place.method]:.1f}"
        lines.append([str(number), place.method, score, behind, verdict(place), *more, time])
    header = ["Place", "Method", TASKS[name].metric, "Behind the first", "From the first"]
    return markdown([*header, *extra.values(), "Seconds a fit"], lines)


def confirmation_table(table: pd.DataFrame, before: pd.DataFrame) -> str:
    """GCM and IGCM against the method that was first before, on further splits.

    :param before: the results that the first is read from.
    """
    lines = []
    for name, task in TASKS.items():
        known = name in set(before["dataset"])
        earlier = [place.method for place in places(before, name)] if known else []
        if not set(earlier[:1]) & set(table.loc[table["dataset"] == name, "method"]):
            continue  # nothing to compare with
        ranked = places(table, name, against=earlier[0])
        most = _fits(table[table["dataset"] == name])
        for number, place in enumerate(ranked, start=1):
            if place.method in {earlier[0], "GCM", "IGCM"} & {*earlier}:
                ranks = [f"{earlier.index(place.method) + 1} of {len(earlier)}"]
                ranks.append(f"{number} of {len(ranked)}")
                behind = shown(place.behind, most) if place.behind else ""
                told = verdict(place) if place.behind else "was first"
                score = shown(place.score, most)
                lines.append([task.title, place.method, *ranks, score, behind, told])
    header = ["Data set", "Method", "Place before", "Place here", "Score"]
    return markdown([*header, "Behind the one that was first", "From it"], lines)


def metric_table(table: pd.DataFrame, metric: str, lower_is_better: bool) -> str:
    """One metric of every method on every data set that has it.

    An asterisk where the corrected interval of the difference to the first excludes 0.
    """
    rows = table[table["metric"] == metric]
    names = {name: task.title for name, task in TASKS.items() if name in set(rows["dataset"])}
    cells, marks = {}, {}
    for name in names:
        values = samples(rows[rows["dataset"] == name], "method")
        for place in ranking(values, lower_is_better, TEST_TO_TRAIN):
            cells[place.method, name] = place.score
            if place.behind is not None and place.behind.excludes(0.0):
                marks[place.method, name] = "*"
    lower = dict.fromkeys(names, lower_is_better)
    methods, most = known_first(rows["method"]), _fits(rows)
    return grid(cells, methods, names, lower_is_better=lower, marks=marks, most=most)


def _fits(table: pd.DataFrame) -> int:
    """The most fits that a method has on a data set."""
    fits = table.drop_duplicates(["dataset", "method", *PAIR])
    return int(fits.groupby(["dataset", "method"]).size().max())


def settings_table(table: pd.DataFrame) -> str:
    """What the search chose: a row a method, a column a data set."""
    names = {name: task.title for name, task in TASKS.items() if name in set(table["dataset"])}
    names = names or dict.fromkeys(sorted(set(table["dataset"])), "Chosen")
    lines = []
    for method in known_first(table["method"]):
        line = [method]
        for name in names:
            rows = table[(table["method"] == method) & (table["dataset"] == name)]
            line.append("; ".join(map(_searched, sorted(set(rows["settings"])))) or NOT_RUN)
        lines.append(line)
    return markdown(["Method", *names.values()], lines)


def paper_ablation(paper: pd.DataFrame, method: str) -> dict[tuple[int, int], Interval]:
    """The paper's AUC of a method by (N, D)."""
    return {
        (row["sample_number"], row["latent_dim"]): Interval(row["auc"], row["ci95"], 0)
        for row in paper[paper["method"] == method].to_dict("records")
    }


def ablation_table(table: pd.DataFrame, paper: pd.DataFrame | None, method: str) -> str:
    """N down, D across: AUC of a method; the paper's beside it where it is given."""
    rows = table[table["method"] == method]
    ours = {key: mean_interval(values) for key, values in samples(rows, ["N", "D"]).items()}
    theirs = {} if paper is None else paper_ablation(paper, method)
    every = [*ours, *theirs]
    numbers, dimensions = ({key[axis] for key in every} for axis in (0, 1))
    header = ["N", "", *[f"D = {d}" for d in sorted(dimensions)]]
    rows_of = {n: n if theirs else None for n in sorted(numbers)}
    return beside(ours, theirs, rows_of, dict.fromkeys(sorted(dimensions)), header)


def time_table(wide: pd.DataFrame, digits: int = 2) -> str:
    """Milliseconds or ratios: a row a method and treatment of x, a column a number of r."""
    rows = [
        [str(method), str(treatment), *[f"{value:.{digits}f}" for value in values]]
        for (method, treatment), values in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    return markdown(["Method", "x", *[f"R = {count}" for count in wide.columns]], rows)


def _searched(settings: str) -> str:
    options = json.loads(settings)
    return ", ".join(f"{name} {options[name]}" for name in options if name not in _SHARED)


def _plain(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"
