"""Numbers and names that stand in the sentences of the report."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import pandas as pd

from reproduce.intervals import TEST_TO_TRAIN, meet, paired_interval, samples
from reproduce.methods import METHODS
from reproduce.rendering.markdown import NOT_RUN, grid
from reproduce.rendering.tables import intervals, paper_table_3
from reproduce.tasks import TASKS, own_metric

#: Mean of the metric of a task by method and data set.
Means = Mapping[tuple[str, str], float]


def means(table: pd.DataFrame | None) -> Means:
    """Our means, or those of the paper's Table 3 where there is no table."""
    if table is None:
        return {key: cell.mean for key, cell in paper_table_3().items()}
    values = samples(own_metric(table), ["method", "dataset"])
    return {key: float(each.mean()) for key, each in values.items()}


def better(name: str, first: float, second: float) -> bool:
    return first < second if TASKS[name].lower_is_better else first > second


def ahead(table: pd.DataFrame | None, ours: str = "IGCM", rivals: str = "GCM") -> str:
    """On how many of the data sets the best mean of some methods is better than that of rivals.

    :param ours: names, joined by "and"; `rivals` as well, or "the others" of the paper's table.
    """
    found, first = means(table), ours.split(" and ")
    paper = {name for name, method in METHODS.items() if method.paper == name}
    others = paper - {*first} if rivals == "the others" else {*rivals.split(" and ")}
    leads = []
    for name, task in TASKS.items():
        if {(method, name) for method in {*first, *others}} <= set(found):
            best = min if task.lower_is_better else max
            sides = (best(found[method, name] for method in side) for side in (first, others))
            leads.append(better(name, *sides))
    return f"{sum(leads)} of {len(leads)}"


def igcm_to_gcm(released: pd.DataFrame, published: pd.DataFrame, held_out: pd.DataFrame) -> str:
    """Paired differences of IGCM to GCM on every data set, positive where IGCM is better.

    :param held_out: on random splits, whose differences have the corrected interval.
    """
    lines = {
        "Released training": (own_metric(released), 0.0),
        "Published protocol": (own_metric(published), 0.0),
        "Held-out, AUC or RMSE": (
            held_out[held_out["metric"].isin(["AUC", "RMSE"])],
            TEST_TO_TRAIN,
        ),
        "Held-out, log score": (held_out[held_out["metric"] == "log score"], TEST_TO_TRAIN),
    }
    cells = {}
    for title, (rows, ratio) in lines.items():
        values = samples(rows, ["method", "dataset", "metric"])
        for (method, name, metric), gcm in values.items():
            igcm = values.get(("IGCM", name, metric))
            if method == "GCM" and igcm is not None:
                sign = -1.0 if metric == "RMSE" else 1.0
                cells[title, name] = paired_interval(sign * igcm, sign * gcm, ratio)
    marks = {key: "*" if cell.excludes(0.0) else "" for key, cell in cells.items()}
    columns = {name: task.title for name, task in TASKS.items()}
    return grid(cells, columns, marks=marks, order=[*lines])


def place(table: pd.DataFrame | None, method: str) -> str:
    """The place on each data set among the strict methods of the paper, or among the others."""
    found, strict = means(table), METHODS[method].strict
    among = [name for name, each in METHODS.items() if each.paper == name and each.strict == strict]
    ranks = []
    for name in TASKS:
        scores = [found[other, name] for other in among if (other, name) in found]
        whole = len(scores) == len(among)
        before = sum(better(name, score, found[method, name]) for score in scores if whole)
        ranks.append(str(1 + before) if whole else "–")
    return ", ".join(ranks)


def firsts(table: pd.DataFrame) -> str:
    """At how many levels GCM has the smallest mean error, among the methods that are there."""
    errors = table.pivot_table("value", "metric", "method")
    return f"{(errors.idxmin(axis='columns') == 'GCM').sum()} of {len(errors)}"


def violations(table: pd.DataFrame, method: str) -> str:
    """The smallest and the largest share of violating pairs over the data sets, in per cent."""
    rows = table[(table["method"] == method) & (table["metric"] == "violation rate")]
    rates = 100 * rows.groupby("dataset")["value"].mean()
    return f"{rates.min():.0f} to {rates.max():.0f} %" if len(rates) else NOT_RUN


def apart(table: pd.DataFrame, name: str) -> str:
    """How many of our cells differ from the paper's on a data set, and by how much."""
    task, theirs = TASKS[name], paper_table_3()
    ours = intervals(own_metric(table[table["dataset"] == name]), "method")
    pairs = [
        (ours[method,], theirs[entry.paper, name])
        for method, entry in METHODS.items()
        if entry.paper and (method,) in ours
    ]
    gaps = [our.mean - their.mean for our, their in pairs if not math.isnan(our.mean)]
    if not gaps:
        return NOT_RUN
    count = sum(meet(*pair) is False for pair in pairs)
    improved = sum(better(name, gap, 0.0) for gap in gaps)
    return (
        f"{count} of {len(pairs)} comparisons have a dagger, and in {improved} ours is better; "
        f"ours minus the paper's {task.metric} is from {min(gaps):+.4f} to {max(gaps):+.4f}."
    )


#: What a cell of a table says -> how it is told.
_MARKS: dict[str, Callable[[str], bool]] = {
    "best": lambda cell: "**" in cell,
    "apart": lambda cell: "†" in cell,
    "marked": lambda cell: "*" in cell.replace("**", ""),
    "ahead": lambda cell: "*" in cell.replace("**", "") and not cell.startswith("-"),
    "behind": lambda cell: "*" in cell.replace("**", "") and cell.startswith("-"),
}


def _marked(table: str, mark: str) -> dict[str, list[str]]:
    """First cell of every line of a table in Markdown -> the headings of its cells with a mark."""
    header, *lines = (re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in table.splitlines())
    titles = [title.partition(",")[0] for title in header]
    return {
        line[0]: [title for title, cell in zip(titles, line, strict=True) if _MARKS[mark](cell)]
        for line in lines[1:]
    }


def where(table: str, mark: str, *lines: str) -> str:
    """The columns of a table in which these lines, or all, have a mark."""
    found = _marked(table, mark)
    if not found or not {*lines} <= set(found):
        return NOT_RUN
    first, *others = (found[line] for line in lines or found)
    return ", ".join(t for t in first if all(t in other for other in others)) or "none"


def which(table: str, mark: str) -> str:
    """The lines of a table that have a mark, and the columns in which they have it."""
    found = _marked(table, mark)
    told = [f"{line} ({', '.join(titles)})" for line, titles in found.items() if titles]
    return ", ".join(told) or ("none" if found else NOT_RUN)


def named(table: str, mark: str) -> str:
    """The lines of a table that have a mark."""
    return ", ".join(line for line, titles in _marked(table, mark).items() if titles) or "none"


def counted(table: str, mark: str) -> str:
    """How many cells of a table have a mark."""
    return str(sum(map(len, _marked(table, mark).values())))
