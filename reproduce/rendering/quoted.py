"""Numbers and names that stand in the sentences of the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pandas as pd

from reproduce.intervals import TEST_TO_TRAIN, Interval, mean_intervals, stars
from reproduce.methods import METHODS
from reproduce.rendering.markdown import grid
from reproduce.rendering.tables import paper_table_3, scored, to_reference
from reproduce.tasks import TASKS


def _cells(table: pd.DataFrame | None) -> Mapping[tuple[str, str], Interval]:
    """Our means by method and data set, or those of the paper where there is no table."""
    return paper_table_3() if table is None else mean_intervals(scored(table)[0])


def better(name: str, first: float, second: float) -> bool:
    """Whether a score is better than another one on a data set."""
    return first < second if TASKS[name].lower_is_better else first > second


def ahead(table: pd.DataFrame | None, ours: str = "IGCM", rivals: str = "GCM") -> str:
    """On how many of the data sets the best mean of some methods is better than that of rivals.

    :param ours: names, joined by "and"; `rivals` as well, or "the others" of the paper's table.
    """
    found, first = _cells(table), ours.split(" and ")
    paper = {name for name, method in METHODS.items() if method.paper == name}
    others = paper - {*first} if rivals == "the others" else {*rivals.split(" and ")}
    leads = []
    for name, task in TASKS.items():
        if {(method, name) for method in {*first, *others}} <= set(found):
            best = min if task.lower_is_better else max
            sides = (best(found[m, name].mean for m in side) for side in (first, others))
            leads.append(better(name, *sides))
    return f"{sum(leads)} of {len(leads)}"


def igcm_to_gcm(released: pd.DataFrame, published: pd.DataFrame, held_out: pd.DataFrame) -> str:
    """Paired differences of IGCM to GCM on every data set, positive where IGCM is better.

    :param held_out: on random splits, whose differences have the corrected interval.
    """
    cells: dict[tuple[str, str], Interval] = {}
    for title, table, metrics in (
        ("Released training", released, ()),
        ("Published protocol", published, ()),
        ("Held-out, AUC or RMSE", held_out, ("AUC", "RMSE")),
        ("Held-out, log score", held_out, ("log score",)),
    ):
        values, _, lower = scored(table, *metrics)
        others = to_reference(values, "IGCM", lower, TEST_TO_TRAIN if metrics else 0.0)
        cells |= {(title, name): gap for (method, name), gap in others.items() if method == "GCM"}
    columns = {name: task.title for name, task in TASKS.items()}
    return grid(cells, columns, marks=stars(cells), order=dict.fromkeys(row for row, _ in cells))


def place(table: pd.DataFrame | None, method: str) -> str:
    """The place on each data set among the strict methods of the paper, or among the others."""
    found, strict = _cells(table), METHODS[method].strict
    among = [name for name, each in METHODS.items() if each.paper == name and each.strict == strict]
    ranks = [
        1 + sum(better(n, found[m, n].mean, found[method, n].mean) for m in among) for n in TASKS
    ]
    return ", ".join(map(str, ranks))


def violations(table: pd.DataFrame, method: str) -> str:
    """The smallest and the largest share of violating pairs over the data sets, in per cent."""
    rows = table[(table["method"] == method) & (table["metric"] == "violation rate")]
    rates = 100 * rows.groupby("dataset")["value"].mean()
    return f"{rates.min():.0f} to {rates.max():.0f} %"


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
    first, *others = (found[line] for line in lines or found)
    return ", ".join(t for t in first if all(t in other for other in others)) or "none"


def which(table: str, mark: str, nothing: str = "none") -> str:
    """The lines of a table that have a mark, and the columns in which they have it."""
    found = _marked(table, mark)
    return ", ".join(f"{row} ({', '.join(of)})" for row, of in found.items() if of) or nothing


def named(table: str, mark: str) -> str:
    """The lines of a table that have a mark."""
    return ", ".join(line for line, titles in _marked(table, mark).items() if titles) or "none"


def counted(table: str, mark: str) -> str:
    """How many cells of a table have a mark."""
    return str(sum(map(len, _marked(table, mark).values())))
