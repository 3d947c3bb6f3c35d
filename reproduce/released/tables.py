"""Tables of the released protocol: beside the paper's Table 3, and one change at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd
from scipy.stats import kendalltau

from reproduce.intervals import Interval, mean_interval, meet, paired_interval, samples
from reproduce.released.networks import FORMS, POSITIVE
from reproduce.released.rows import KNOWN_ROWS
from reproduce.released.training import CHANGES, MAPPED, Z_DIM, changes_of, settings_of
from reproduce.rendering.markdown import NOT_RUN, beside, grid, markdown, number, shown
from reproduce.rendering.tables import intervals, paper_table_3, titles
from reproduce.tasks import TASKS, own_metric

#: What the networks of GCM and IGCM have unless a call says otherwise.
_MAIN = {"loss_type": 0, "z_dim": Z_DIM}
#: The methods of the paper's table.
NINE = tuple(method for method in FORMS if method != "MLP")
_AS_IT_IS = "as released"
#: The paper's own map to positive weights.
_OWN = next(iter(POSITIVE))
Cells = Mapping[Any, Interval]


def cells(table: pd.DataFrame) -> str:
    """Ours and the paper's, of the data sets that are the paper's."""
    ours = _main(table)
    names = _compared(ours)
    kept = {key: cell for key, cell in ours.items() if key[1] in names}
    lower = {name: TASKS[name].lower_is_better for name in names}
    columns = titles(names)
    return beside(kept, paper_table_3(), {name: name for name in FORMS}, columns, lower)


def stand_in(table: pd.DataFrame) -> str:
    """The scores of the data set that takes the place of one of the paper's."""
    names = {name: TASKS[name].title for name in TASKS if TASKS[name].stand_in}
    ours = {key: cell for key, cell in _main(table).items() if key[1] in names}
    if not ours:
        return "None so far."
    return grid(ours, names, {name: TASKS[name].lower_is_better for name in names})


def share(table: pd.DataFrame, *names: str) -> str:
    """How many of our cells meet the paper's, on some data sets; those of known rows by default."""
    ours, theirs = _main(table), paper_table_3()
    keys = [key for key in theirs if key in ours and key[1] in (names or KNOWN_ROWS)]
    known = [each for key in keys if (each := meet(ours[key], theirs[key])) is not None]
    return f"{sum(known)} of {len(known)}" if known else NOT_RUN


def apart(table: pd.DataFrame) -> str:
    """The cells that do not meet, by how much ours are off, on the data sets of known rows."""
    theirs, lines = paper_table_3(), []
    for (method, name), cell in _main(table).items():
        their = theirs.get((method, name))
        if name in KNOWN_ROWS and their is not None and meet(cell, their) is False:
            numbers = number(cell.mean), number(their.mean), f"{cell.mean - their.mean:+.4f}"
            reach = f"{cell.half + their.half:.4f}"
            lines.append([TASKS[name].title, method, *numbers, reach])
    header = ["Data set", "Method", "ours", "paper", "difference", "sum of the intervals"]
    return markdown(header, lines) if lines else "None."


def from_mean(table: pd.DataFrame) -> str:
    """Differences from the mean of a column, ours and the paper's, where the rows are a guess."""
    ours, theirs = _main(table), paper_table_3()
    names = [name for name in _compared(ours) if name not in KNOWN_ROWS]

    def text(method: str, name: str, found: Cells) -> str:
        shared = [key for key in theirs if key[1] == name and key in ours]
        if (method, name) not in shared:
            return "–"
        mean = sum(found[key].mean for key in shared) / len(shared)
        return f"{found[method, name].mean - mean:+.4f}"

    pairs = list(product(names, (ours, theirs)))
    lines = [[method, *(text(method, *pair) for pair in pairs)] for method in FORMS]
    heads = [f"{TASKS[name].title}, {whose}" for name in names for whose in ("ours", "paper")]
    return markdown(["Method", *heads], lines) if names else "None so far."


def order(table: pd.DataFrame) -> str:
    """Kendall's tau of our means with the paper's, of every data set that has all methods."""
    taus = {name: _tau(_main(table), name) for name, task in TASKS.items() if not task.stand_in}
    lines = [
        [
            TASKS[name].title,
            f"{found[0]:+.2f}",
            "< 0.001" if found[1] < 0.001 else f"{found[1]:.3f}",
        ]
        for name, found in taus.items()
        if found is not None
    ]
    return markdown(["Data set", "Kendall's tau", "p-value"], lines)


def networks(table: pd.DataFrame) -> str:
    """GCM and IGCM with every setting that their networks may have had."""
    found = {
        (f"{method}, " + ", ".join(f"{key} {value}" for key, value in own), name): rows
        for (method, name, settings), rows in samples(
            own_metric(table), ["method", "dataset", "settings"]
        ).items()
        if (own := _own(settings))
    }
    columns = titles({name for _, name in found})
    lines = []
    for label in dict.fromkeys(label for label, _ in found):
        every = [found.get((label, name)) for name in columns]
        lines.append([label, *("–" if c is None else shown(mean_interval(c)) for c in every)])
    return markdown(["Method", *columns.values()], sorted(lines))


def changes(table: pd.DataFrame, name: str) -> str:
    """A line for each change: the mean of every method, the places of GCM and IGCM, and tau."""
    lines = []
    for change, found in by_change(table, name).items():
        means = [number(found[m, name].mean) if (m, name) in found else "–" for m in FORMS]
        agreement = _tau(found, name)
        places = [_place(found, name, method) for method in ("GCM", "IGCM")]
        last = "–" if agreement is None else f"{agreement[0]:+.2f}"
        lines.append([change, *means, *places, last])
    return markdown(["Change", *FORMS, "place of GCM", "place of IGCM", "tau"], lines)


def positive_maps(table: pd.DataFrame) -> str:
    """Mean of each map to positive weights; * where the paired difference to the first is not 0.

    :param table: with the fits of the released protocol, whose map is the first.
    """
    values, gaps = _by_map(table)
    columns = titles({name for _, by, name in values if by != _OWN})

    def text(key: tuple[str, str, str]) -> str:
        if key not in values:
            return NOT_RUN
        return shown(mean_interval(values[key]), mark="*" if gaps[key].excludes(0.0) else "")

    lines = [
        [m, by, *(text((m, by, name)) for name in columns)] for m, by in product(MAPPED, POSITIVE)
    ]
    return markdown(["Method", "W+", *columns.values()], lines)


def positive_counts(table: pd.DataFrame, which: str, *maps: str) -> str:
    """In how many cells these maps are significantly "better" or "worse" than the paper's own."""
    found = [
        gap.excludes(0.0)
        and ((gap.mean < 0.0) == TASKS[name].lower_is_better) == (which == "better")
        for (_, by, name), gap in _by_map(table)[1].items()
        if by in (maps or POSITIVE) and by != _OWN
    ]
    return f"{sum(found)} of {len(found)}"


def _by_map(table: pd.DataFrame) -> tuple[dict[Any, pd.Series], dict[Any, Interval]]:
    """Values of the metric of a task by method, map and data set, and how far from the own map."""
    rows = own_metric(table)
    by = [json.loads(text).get("positive", _OWN) for text in rows["settings"]]
    values = samples(rows.assign(by=by), ["method", "by", "dataset"])
    unknown = Interval(math.nan, math.nan, 0)
    gaps = {
        (method, of, name): paired_interval(each, values[method, _OWN, name])
        if (method, _OWN, name) in values
        else unknown
        for (method, of, name), each in values.items()
    }
    return values, gaps


def place_after(table: pd.DataFrame, name: str, change: str, method: str) -> str:
    """The place of a method among the nine of the paper after a change, or "as released"."""
    return _place(by_change(table, name).get(change, {}), name, method)


def tau(table: pd.DataFrame, name: str) -> str:
    """Kendall's tau of our means of a data set with the paper's."""
    found = _tau(_main(table), name)
    return NOT_RUN if found is None else f"{found[0]:+.2f}"


def by_change(table: pd.DataFrame, name: str) -> dict[str, Cells]:
    """Change -> means and intervals by (method, data set).

    A method that a change is not about keeps the numbers of the released protocol there.
    """
    rows = own_metric(table[table["dataset"] == name])
    values = samples(rows, ["method", "settings"])
    kinds = {key: mean_interval(each) for key, each in values.items()}
    found: dict[str, Cells] = {}
    for change in (_AS_IT_IS, *CHANGES):
        cells = {}
        for method in FORMS:
            own = changes_of(name, method).get(change, {})
            wanted = {**settings_of(name, method)[0], **own}
            for (other, settings), cell in kinds.items():
                if other == method and _same(json.loads(settings), wanted):
                    cells[method, name] = cell
        about = [m for m in FORMS if change in changes_of(name, m) and (m, name) in cells]
        if cells and (change == _AS_IT_IS or about):
            found[change] = cells
    return found


def _same(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether settings are those; --quick has other epochs, and some of the rows."""
    quick = {"rows", "epochs"} if "rows" in settings else set()
    return all(
        settings.get(key) == wanted.get(key) for key in {*settings, *wanted} if key not in quick
    )


def main_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The fits of Table 3: of GCM and IGCM those with what the code has."""
    of = {
        text: all(_MAIN[k] == v or v == 2 for k, v in _own(text)) for text in set(table["settings"])
    }
    return table[table["settings"].map(of).astype(bool)]


def _main(table: pd.DataFrame) -> dict[Any, Interval]:
    """Means and intervals of these fits by (method, data set)."""
    return intervals(own_metric(main_rows(table)), "method", "dataset")


def _compared(found: Cells) -> list[str]:
    """The data sets among the cells that are the paper's."""
    there = {name for _, name in found}
    return [name for name, task in TASKS.items() if name in there and not task.stand_in]


def _own(settings: str) -> tuple[tuple[str, Any], ...]:
    """The settings of a network, those that a method has."""
    found = json.loads(settings)
    return tuple((key, found[key]) for key in _MAIN if key in found)


def _tau(found: Cells, name: str) -> tuple[float, float] | None:
    theirs = {method: cell for (method, of), cell in paper_table_3().items() if of == name}
    if not all((method, name) in found for method in theirs):
        return None
    result = kendalltau(
        [found[method, name].mean for method in theirs], [cell.mean for cell in theirs.values()]
    )
    return float(result.statistic), float(result.pvalue)


def _place(found: Cells, name: str, method: str) -> str:
    """The place of a method among the nine of the paper."""
    among = {m: found[m, name].mean for m in NINE if (m, name) in found}
    if len(among) < len(NINE):
        return "–"
    sign = 1.0 if TASKS[name].lower_is_better else -1.0
    return str(1 + sum(sign * mean < sign * among[method] for mean in among.values()))
