"""Cells and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reproduce.methods import METHODS
from reproduce.report_statistics import Interval, meet

NOT_RUN = "not run"
_VERDICT = {True: "meet", False: "**apart**", None: "no interval"}


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers to the right."""
    lines = list(rows)
    columns = zip(*lines, strict=True) if lines else [() for _ in header]
    rule = ["---:" if any(map(_is_number, cells)) else "---" for cells in columns]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def shown(interval: Interval | None, most: int, first: bool = False) -> str:
    """A cell: mean and interval, and the number of fits where it is not `most`."""
    if interval is None:
        return NOT_RUN
    notes = [f"n = {interval.count}"] if interval.count < most else []
    notes += [f"{interval.diverged} diverged"] if interval.diverged else []
    text = "–" if math.isnan(interval.mean) else f"{interval.mean:.4f}"
    if not math.isnan(interval.half):
        text += f" ± {interval.half:.4f}"
    text = f"**{text}**" if first else text
    return f"{text} ({', '.join(notes)})" if notes else text


def known_first(methods: Iterable[str]) -> list[str]:
    """Each method once: those of the table of methods in its order, then the others by name."""
    order = list(METHODS)
    return sorted(set(methods), key=lambda m: (order.index(m) if m in order else len(order), m))


def grid(
    cells: Mapping[Any, Interval],
    rows: Sequence[str],
    columns: Mapping[str, str],
    *,
    lower_is_better: Mapping[str, bool] | None = None,
    marks: Mapping[Any, str] | None = None,
    most: int | None = None,
) -> str:
    """A row a method; the first in bold in the columns of `lower_is_better`.

    :param most: fits of a whole cell; those of the fullest by default.
    """
    if most is None:
        most = max((cell.count + cell.diverged for cell in cells.values()), default=0)
    best = {name: _best(cells, rows, name, low) for name, low in (lower_is_better or {}).items()}
    lines = []
    for row in rows:
        line = [row]
        for name in columns:
            text = shown(cells.get((row, name)), most, row in best.get(name, ()))
            line.append(text + (marks or {}).get((row, name), ""))
        lines.append(line)
    return markdown(["Method", *columns.values()], lines)


def beside(
    ours: Mapping[Any, Interval],
    theirs: Mapping[Any, Interval],
    rows: Mapping[Any, Any],
    columns: Mapping[Any, bool | None],
    header: Sequence[str],
    lacking: Mapping[Any, str] | None = None,
) -> str:
    """Ours, the paper's and whether they meet, one line each.

    :param rows: a row -> the row of the paper beside it, or None.
    :param columns: a column -> whether lower is better; None for no first in bold.
    :param lacking: a column that we cannot have -> what stands in it.
    """
    most = max((cell.count + cell.diverged for cell in ours.values()), default=0)
    paper_rows = {row for row in rows.values() if row is not None}
    best, paper_best = (
        {c: set() if low is None else _best(cells, among, c, low) for c, low in columns.items()}
        for cells, among in ((ours, rows), (theirs, paper_rows))
    )
    lines = []
    for row, other in rows.items():
        pairs = [(c, ours.get((row, c)), theirs.get((other, c))) for c in columns]
        cells = [(lacking or {}).get(c) or shown(o, most, row in best[c]) for c, o, _ in pairs]
        lines.append([str(row), "ours", *cells])
        if not any(paper for _, _, paper in pairs):
            continue
        cells = [shown(paper, 0, other in paper_best[c]) if paper else "" for c, _, paper in pairs]
        lines.append(["", "paper", *cells])
        verdicts = [_VERDICT[meet(o, paper)] if o and paper else "" for _, o, paper in pairs]
        lines.append(["", "intervals", *verdicts])
    return markdown(header, lines)


def _is_number(cell: str) -> bool:
    return cell.strip("*-")[:1].isdigit()


def _best(cells: Mapping[Any, Interval], rows: Iterable[Any], column: Any, lower: bool) -> set[Any]:
    means = {row: cells[row, column].mean for row in rows if (row, column) in cells}
    means = {row: mean for row, mean in means.items() if not math.isnan(mean)}
    first = (min if lower else max)(means.values(), default=math.nan)
    return {row for row, mean in means.items() if mean == first}
