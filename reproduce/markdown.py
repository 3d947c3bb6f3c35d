"""Cells and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reproduce.intervals import Interval, meet
from reproduce.methods import METHODS

NOT_RUN = "not run"
#: (row, column) -> mean and interval.
Cells = Mapping[Any, Interval]
#: Column -> whether a lower value is better; the first of such a column is in bold.
Lower = Mapping[Any, bool]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers to the right."""
    lines = list(rows)
    columns = zip(*lines, strict=True) if lines else [() for _ in header]
    rule = ["---:" if any(map(_is_number, cells)) else "---" for cells in columns]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def _is_number(cell: str) -> bool:
    return cell.strip("*-+")[:1].isdigit()


def number(value: float, sign: str = "") -> str:
    """Four decimals, or three where the number is 1 or more."""
    return "–" if math.isnan(value) else f"{value:{sign}.{3 if abs(value) >= 1 else 4}f}"


def shown(cell: Interval | None, most: int = 0, first: bool = False, mark: str = "") -> str:
    """A cell: mean and interval, and the number of fits where it is less than `most`."""
    if cell is None:
        return NOT_RUN
    notes = [f"n = {cell.count}"] if cell.count < most else []
    notes += [f"{cell.diverged} diverged"] if cell.diverged else []
    half = "" if math.isnan(cell.half) else f" ± {number(cell.half)}"
    text = f"{number(cell.mean)}{half}"
    text = (f"**{text}**" if first else text) + mark
    return f"{text} ({', '.join(notes)})" if notes else text


def known_first(methods: Iterable[str]) -> list[str]:
    """Each method once: those of the table of methods in its order, then the others by name."""
    order = list(METHODS)
    return sorted(set(methods), key=lambda m: (order.index(m) if m in order else len(order), m))


def grid(
    cells: Cells,
    columns: Mapping[str, str],
    lower: Lower | None = None,
    marks: Mapping[Any, str] | None = None,
) -> str:
    """A row a method and a column for each of `columns`, under its heading.

    :param marks: (method, column) -> what follows the interval.
    """
    rows, lower, marks = known_first(method for method, _ in cells), lower or {}, marks or {}
    best = {column: _best(cells, rows, column, lower) for column in columns}
    most = _most(cells)
    lines = []
    for row in rows:
        texts = [
            shown(cells.get((row, c)), most, row in best[c], marks.get((row, c), ""))
            for c in columns
        ]
        lines.append([row, *texts])
    return markdown(["Method", *columns.values()], lines)


def beside(
    ours: Cells,
    theirs: Cells,
    rows: Mapping[Any, Any],
    columns: Mapping[Any, str],
    lower: Lower | None = None,
) -> str:
    """Two lines a row, ours and the paper's; † where the two intervals have no point in common.

    :param rows: a row -> the row of the paper beside it, or None.
    """
    known = {row for row in rows.values() if row is not None}
    best = {c: _best(ours, rows, c, lower or {}) for c in columns}
    paper_best = {c: _best(theirs, known, c, lower or {}) for c in columns}
    lines, most = [], _most(ours)
    for row, other in rows.items():
        mine, paper = [str(row), "ours"], ["", "paper"]
        for c in columns:
            our, their = ours.get((row, c)), theirs.get((other, c))
            apart = our is not None and their is not None and meet(our, their) is False
            mine.append(shown(our, most, row in best[c], "†" if apart else ""))
            paper.append(shown(their, 0, other in paper_best[c]) if their else "")
        lines += [mine, paper] if any(paper[2:]) else [mine]
    return markdown(["", "", *columns.values()], lines)


def _most(cells: Cells) -> int:
    """The fits of the fullest cell."""
    return max((cell.count + cell.diverged for cell in cells.values()), default=0)


def _best(cells: Cells, rows: Iterable[Any], column: Any, lower: Lower) -> set[Any]:
    if column not in lower:
        return set()
    means = {row: cells[row, column].mean for row in rows if (row, column) in cells}
    means = {row: mean for row, mean in means.items() if not math.isnan(mean)}
    first = (min if lower[column] else max)(means.values(), default=math.nan)
    return {row for row, mean in means.items() if mean == first}
