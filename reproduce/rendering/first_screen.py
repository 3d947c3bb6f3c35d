"""The paper's tables cell by cell: ours beside the printed number, and whether they meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reproduce import timing
from reproduce.ablations.latent_sizes import LATENT_DIMENSIONS, SAMPLE_NUMBERS, with_sizes
from reproduce.data.datasets import SIZES
from reproduce.data.simulation import LEVELS
from reproduce.intervals import Interval, meet
from reproduce.released.tables import main_rows
from reproduce.rendering.markdown import markdown
from reproduce.rendering.tables import intervals, paper_cells, paper_table_3
from reproduce.tasks import TASKS, own_metric

#: What a cell says: whether the two numbers meet; None where ours cannot be had.
COLOURS: dict[bool | None, str] = {
    True: "<span class=meets>✓</span>",
    False: "<span class=differs>✗</span>",
    None: "<span class=lacks>○</span>",
}
Cells = Mapping[Any, Interval]


def report(results: Mapping[str, pd.DataFrame], table: str) -> str:
    """One of the paper's tables: "1", "2", "3", "6", "7" or "8"."""
    made: str = {"1": _errors, "2": _sizes, "3": _scores, "8": _times}.get(table, _ablation)(
        results, *(["GCM", "IGCM"][int(table) - 6 :][:1] if table in "67" else [])
    )
    return made


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


def _errors(results: Mapping[str, pd.DataFrame]) -> str:
    theirs = paper_cells("quantile_mae", "method", "r", "mae", "ci95")
    means = intervals(results["quantile_paper_setting"], "method", "metric")
    ours = {(method, float(name.partition("=")[2])): cell for (method, name), cell in means.items()}
    return _cells(ours, theirs, {level: f"r = {level}" for level in LEVELS}, "Table 1, error")


def _sizes(results: Mapping[str, pd.DataFrame]) -> str:
    lines = []
    for row in results["datasets"].to_dict("records"):
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


def _scores(results: Mapping[str, pd.DataFrame]) -> str:
    ours = intervals(own_metric(main_rows(results["public_released"])), "method", "dataset")
    there = {key: cell for key, cell in ours.items() if not TASKS[key[1]].stand_in}
    columns = {name: f"{task.paper}, {task.metric}" for name, task in TASKS.items()}
    return _cells(there, paper_table_3(), columns, "Table 3")


def _ablation(results: Mapping[str, pd.DataFrame], method: str) -> str:
    paper = paper_cells("ablation_adult", "method", "sample_number", "latent_dim", "auc", "ci95")
    theirs = {(f"N = {n}", d): cell for (m, n, d), cell in paper.items() if m == method}
    rows = with_sizes(results["ablation_released"])
    means = intervals(rows[rows["method"] == method], "N", "D")
    ours = {(f"N = {n}", d): cell for (n, d), cell in means.items() if n in SAMPLE_NUMBERS}
    number = 6 + (method == "IGCM")
    return _cells(
        ours, theirs, {d: f"D = {d}" for d in LATENT_DIMENSIONS}, f"Table {number}, {method}"
    )


def _times(results: Mapping[str, pd.DataFrame]) -> str:
    paper, ours = timing.paper_times().droplevel("x"), timing.by_revenues(results["timing"])
    ways = {method: "cached" if method == "GCM" else "one by one" for method in paper.index}
    lines = []
    counts = [n for n in paper.columns if n in ours.columns]
    for method, times in zip(paper.index, paper[counts].to_numpy(), strict=True):
        if (method, ways[method]) not in ours.index:
            continue
        pairs = zip(ours[counts].T[method, ways[method]], times, strict=True)
        cells = [f"{COLOURS[None]} {our:.1f} / {their:.1f}" for our, their in pairs]
        lines.append([f"{method}, {ways[method]}", *cells])
    return markdown(["Table 8, ms", *(f"R = {n}" for n in counts)], lines)
