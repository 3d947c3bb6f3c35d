"""The paper's tables cell by cell: ours beside the printed number, and whether they meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd

from reproduce import timing
from reproduce.ablations import latent_sizes
from reproduce.data.datasets import SIZES
from reproduce.data.simulation import LEVELS
from reproduce.intervals import Interval, mean_intervals, meet, samples
from reproduce.rendering.markdown import cross_table
from reproduce.rendering.tables import paper_cells, paper_table_3, scored
from reproduce.tasks import TASKS

#: What a cell says: whether the two numbers meet; None where ours cannot be had.
COLOURS: dict[bool | None, str] = {
    True: "<span class=meets>✓</span>",
    False: "<span class=differs>✗</span>",
    None: "<span class=lacks>○</span>",
}
Cells = Mapping[Any, Interval]


def counts(text: str) -> str:
    """How many cells of the tables in a text meet, differ and cannot be had."""
    green, red, white = (text.count(colour) for colour in COLOURS.values())
    return f"{green} {COLOURS[True]}, {red} {COLOURS[False]}, {white} {COLOURS[None]}"


def _cells(
    ours: Cells, theirs: Cells, columns: Mapping[Any, str], corner: str = "", digits: int = 4
) -> str:
    """Ours / the paper's, of every row and column of the paper's."""
    texts = {}
    for key, their in theirs.items():
        our = ours.get(key)
        if our is None or math.isnan(our.mean):
            number, met = "–", None
        else:
            number, met = f"{our.mean:.{digits}f}", meet(our, their)
        texts[key] = f"{COLOURS[met]} {number} / {their.mean:.{digits}f}"
    return cross_table(texts, dict.fromkeys(row for row, _ in theirs), columns, corner)


def errors(table: pd.DataFrame) -> str:
    """Table 1, with the errors in the paper's setting."""
    theirs = paper_cells("quantile_mae", "method", "r", "mae", "ci95")
    values = samples(table, ["method", "metric"])
    means = mean_intervals(values)
    ours = {(m, float(name.removeprefix("MAE r="))): cell for (m, name), cell in means.items()}
    return _cells(ours, theirs, {level: f"r = {level}" for level in LEVELS}, "Table 1, error")


def sizes(table: pd.DataFrame) -> str:
    """Table 2."""
    cells = dict[Any, str]()
    columns = dict(zip(SIZES, ("rows", "columns of x", "columns of r"), strict=False))
    for row in table[table["variant"] == "published"].to_dict("records"):
        for name in columns:
            ours, theirs = row[name], row[f"paper {name}"]  # which a stand-in does not have
            text = COLOURS[None] if pd.isna(theirs) else f"{COLOURS[ours == theirs]} {ours:,}"
            cells[row["dataset"], name] = text
    return cross_table(cells, table["dataset"].unique(), columns, "Table 2, sizes")


def scores(table: pd.DataFrame) -> str:
    """Table 3."""
    values, *_ = scored(table)
    ours = mean_intervals({key: v for key, v in values.items() if not TASKS[key[1]].stand_in})
    columns = {name: f"{task.paper}, {task.metric}" for name, task in TASKS.items()}
    return _cells(ours, paper_table_3(), columns, "Table 3")


def ablation(table: pd.DataFrame, method: str, title: str) -> str:
    """Table 6 or 7."""
    ours, theirs = latent_sizes.cells_of(table, method)
    return _cells(ours, theirs, latent_sizes.COLUMNS, title)


def times(table: pd.DataFrame) -> str:
    """Table 8."""
    paper, measured = timing.paper_times().droplevel("x"), timing.by_revenues(table)
    columns = {n: f"R = {n}" for n in paper.columns if n in measured.columns}
    ours: dict[Any, Interval] = {}
    theirs: dict[Any, Interval] = {}
    for method, n in product(paper.index, columns):
        way = "cached" if method == "GCM" else "one by one"
        key = f"{method}, {way}", n
        ours[key] = Interval(measured.loc[(method, way), n], math.nan, 1)
        theirs[key] = Interval(paper.loc[method, n], math.nan, 1)
    return _cells(ours, theirs, columns, "Table 8, ms", digits=1)
