"""The paper's tables cell by cell: ours beside the printed number, and whether they meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reproduce import timing
from reproduce.ablations import latent_sizes
from reproduce.data.datasets import SIZES
from reproduce.data.simulation import LEVELS
from reproduce.intervals import Interval, mean_intervals, meet, samples
from reproduce.rendering.markdown import markdown
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
    lines = []
    for row in dict.fromkeys(row for row, _ in theirs):
        line = [str(row)]
        for column in columns:
            our, their = ours.get((row, column)), theirs.get((row, column))
            if their is None:
                line.append("")
                continue
            known = our is not None and not math.isnan(our.mean)
            number = f"{our.mean:.{digits}f}" if our is not None and known else "–"
            colour = COLOURS[meet(our, their) if our is not None and known else None]
            line.append(f"{colour} {number} / {their.mean:.{digits}f}")
        lines.append(line)
    return markdown([corner, *columns.values()], lines)


def errors(table: pd.DataFrame) -> str:
    """Table 1, with the errors in the paper's setting."""
    theirs = paper_cells("quantile_mae", "method", "r", "mae", "ci95")
    values = samples(table, ["method", "metric"])
    means = mean_intervals(values)
    ours = {(m, float(name.removeprefix("MAE r="))): cell for (m, name), cell in means.items()}
    return _cells(ours, theirs, {level: f"r = {level}" for level in LEVELS}, "Table 1, error")


def sizes(table: pd.DataFrame) -> str:
    """Table 2."""
    lines = []
    for row in table.to_dict("records"):
        if row["variant"] == "published":
            stand_in = pd.isna(row["paper examples"])
            cells = [
                COLOURS[None]
                if stand_in
                else f"{COLOURS[row[name] == row[f'paper {name}']]} {row[name]:,}"
                for name in SIZES[:3]
            ]
            lines.append([row["dataset"], *cells])
    return markdown(["Table 2, sizes", "rows", "columns of x", "columns of r"], lines)


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
    ours: dict[Any, Interval] = {}
    theirs: dict[Any, Interval] = {}
    counts = [n for n in paper.columns if n in measured.columns]
    for method in paper.index:
        way = "cached" if method == "GCM" else "one by one"
        for n in counts:
            key = f"{method}, {way}", n
            ours[key] = Interval(measured.loc[(method, way), n], math.nan, 1)
            theirs[key] = Interval(paper.loc[method, n], math.nan, 1)
    return _cells(ours, theirs, {n: f"R = {n}" for n in counts}, "Table 8, ms", digits=1)
