"""Cells and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from reproduce.intervals import Interval, meet
from reproduce.methods import METHODS

NOT_RUN = "not run"
#: (row, column) -> mean and interval.
Cells = Mapping[Any, Interval]
#: Column -> whether a lower value is better; the best cell of such a column is in bold.
Lower = Mapping[Any, bool]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers to the right."""
    lines = list(rows)
    columns = zip(*lines, strict=True) if lines else [() for _ in header]
    rule = ["---:" if any(map(_is_number, cells)) else "---" for cells in columns]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def cross_table(
    cells: Mapping[tuple[str, Any], str],
    rows: Iterable[str],
    columns: Mapping[Any, str],
    corner: str = "Method",
    lacking: str = "",
) -> str:
    """A line for each of `rows` that has a cell, and a column for each of `columns`.

    :param cells: (row, column) -> text; `lacking`: the text of those that are not there.
    :param columns: column -> heading.
    """
    there = {row for row, _ in cells}
    lines = [
        [row, *(cells.get((row, column), lacking) for column in columns)]
        for row in rows
        if row in there
    ]
    return markdown([corner, *columns.values()], lines)


def _is_number(cell: str) -> bool:
    return cell.strip("*-+")[:1].isdigit()


def number(value: float) -> str:
    """Four decimals, or three where the number is 1 or more."""
    digits = 3 if abs(value) >= 1 else 4
    return "–" if math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0.0000


def shown(cell: Interval | None, most: int = 0, best: bool = False, mark: str = "") -> str:
    """A cell: mean and interval, and the number of fits where it is less than `most`."""
    if cell is None:
        return NOT_RUN
    notes = [f"n = {cell.count}"] if cell.count < most else []
    notes += [f"{cell.diverged} diverged"] if cell.diverged else []
    half = "" if math.isnan(cell.half) else f" ± {number(cell.half)}"
    text = f"{number(cell.mean)}{half}"
    text = (f"**{text}**" if best else text) + mark
    return f"{text} ({', '.join(notes)})" if notes else text


def known_first(methods: Iterable[str]) -> list[str]:
    """Each method once: those of the table of methods in its order, then the others by name."""
    order = list(METHODS)
    return sorted(set(methods), key=lambda m: (order.index(m) if m in order else len(order), m))


def grid(
    cells: Cells,
    columns: Mapping[Any, str],
    lower: Lower | None = None,
    marks: Mapping[Any, str] | None = None,
    order: Iterable[str] | None = None,
    full_first: bool = False,
) -> str:
    """A row a method and a column for each of `columns`, under its heading.

    :param marks: (method, column) -> what follows the interval.
    :param order: of the methods, of which those without a cell are left out; by default
        `known_first`.
    :param full_first: whether only cells with as many fits as any of their column can be in bold.
    :raises LookupError: without a cell.
    """
    if not cells:
        raise LookupError("no cells")
    marks = marks or {}
    most = {name: _most({key: c for key, c in cells.items() if key[1] == name}) for name in columns}
    rivals = {k: c for k, c in cells.items() if not full_first or _fits(c) == most.get(k[1])}
    best = _best(rivals, lower or {})
    there = dict.fromkeys(method for method, _ in cells)
    keys = product(there, columns)
    texts = {k: shown(cells.get(k), most[k[1]], k in best, marks.get(k, "")) for k in keys}
    return cross_table(texts, known_first(there) if order is None else order, columns)


def beside(
    ours: Cells,
    theirs: Cells,
    partners: Mapping[Any, Any],
    columns: Mapping[Any, str],
    lower: Lower | None = None,
) -> str:
    """Two lines a row, ours and the paper's; † where the two intervals have no point in common.

    :param partners: a row -> the row of the paper beside it; a row without one has one line.
    """
    best, paper_best, most = _best(ours, lower or {}), _best(theirs, lower or {}), _most(ours)
    there = {row for row, _ in ours}
    lines = []
    for row in [*(row for row in partners if row in there), *sorted(there - set(partners))]:
        line, paper = [str(row), "ours"], ["", "paper"]
        for column in columns:
            key, partner = (row, column), (partners.get(row), column)
            our, their = ours.get(key), theirs.get(partner)
            apart = our is not None and their is not None and meet(our, their) is False
            line.append(shown(our, most, key in best, "†" if apart else ""))
            paper.append(shown(their, 0, partner in paper_best) if their else "")
        lines += [line, paper] if any(paper[2:]) else [line]
    return markdown(["", "", *columns.values()], lines)


def _most(cells: Cells) -> int:
    """The fits of the fullest cell."""
    return max(map(_fits, cells.values()), default=0)


def _fits(cell: Interval) -> int:
    return cell.count + cell.diverged


def _best(cells: Cells, lower: Lower) -> set[Any]:
    """The keys of the best cells of their columns."""
    found = set()
    for column, low in lower.items():
        means = {key: cell.mean for key, cell in cells.items() if key[1] == column}
        finite = [mean for mean in means.values() if not math.isnan(mean)]
        first = (min if low else max)(finite, default=math.nan)
        found |= {key for key, mean in means.items() if mean == first}
    return found
