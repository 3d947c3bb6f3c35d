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
from reproduce.rendering.tables import intervals, paper_table_3
from reproduce.tasks import TASKS, own_metric

#: What the networks of GCM and IGCM have unless a call says otherwise.
_MAIN = {"loss_type": 0, "z_dim": Z_DIM}
#: The methods of the paper's table.
NINE = tuple(method for method in FORMS if method != "MLP")
_AS_IT_IS = "as released"
#: The paper's own map to positive weights.
_OWN = next(iter(POSITIVE))
Cells = Mapping[Any, Interval]


def report(table: pd.DataFrame) -> str:
    """What `python -m reproduce public` prints of the released protocol."""
    return f"{cells(table)}\n\n{networks(table)}"


def report_changes(table: pd.DataFrame) -> str:
    """What it prints of the changes."""
    there = [name for name in TASKS if name in set(table["dataset"])]
    return "\n\n".join(f"{TASKS[name].title}\n\n{changes(table, name)}" for name in there)


def cells(table: pd.DataFrame) -> str:
    """Ours and the paper's, of the data sets that are the paper's."""
    ours = _main(table)
    names = _compared(ours)
    columns = {name: f"{TASKS[name].title}, {TASKS[name].metric}" for name in names}
    lower = {name: TASKS[name].lower_is_better for name in names}
    kept = {key: cell for key, cell in ours.items() if key[1] in names}
    return beside(kept, paper_table_3(), {name: name for name in FORMS}, columns, lower)


def differences(table: pd.DataFrame) -> str:
    """Ours minus the paper's, cell by cell; † where the intervals have no point in common."""
    ours, theirs = _main(table), paper_table_3()
    names = _compared(ours)
    lines = []
    for method in NINE:
        line = [method]
        for name in names:
            our, their = ours.get((method, name)), theirs[method, name]
            if our is None or math.isnan(our.mean):
                line.append("–")
                continue
            mark = "†" if meet(our, their) is False else ""
            line.append(f"{our.mean - their.mean:+.4f}{mark}")
        lines.append(line)
    return markdown(["Method", *(TASKS[name].title for name in names)], lines)


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
    found = [
        meet(ours[key], theirs[key])
        for key in theirs
        if key in ours and key[1] in (names or KNOWN_ROWS)
    ]
    known = [each for each in found if each is not None]
    return f"{sum(known)} of {len(known)}" if known else NOT_RUN


def apart(table: pd.DataFrame) -> str:
    """The cells that do not meet, by how much ours are off, on the data sets of known rows."""
    ours, theirs = _main(table), paper_table_3()
    lines = []
    for (method, name), cell in ours.items():
        their = theirs.get((method, name))
        if name in KNOWN_ROWS and their is not None and meet(cell, their) is False:
            gap = f"{cell.mean - their.mean:+.4f}"
            reach = f"{cell.half + their.half:.4f}"
            lines.append([TASKS[name].title, method, number(cell.mean), number(their.mean)])
            lines[-1] += [gap, reach]
    header = ["Data set", "Method", "ours", "paper", "difference", "sum of the intervals"]
    return markdown(header, lines) if lines else "None."


def from_mean(table: pd.DataFrame) -> str:
    """Differences from the mean of a column, ours and the paper's, where the rows are a guess."""
    ours, theirs = _main(table), paper_table_3()
    names = [name for name in _compared(ours) if name not in KNOWN_ROWS]
    lines = []
    for method in FORMS:
        line = [method]
        for name in names:
            shared = [key for key in theirs if key[1] == name and key in ours]
            if (method, name) not in shared:
                line += ["–", "–"]
                continue
            for found in (ours, theirs):
                mean = sum(found[key].mean for key in shared) / len(shared)
                line.append(f"{found[method, name].mean - mean:+.4f}")
        lines.append(line)
    titles = [f"{TASKS[name].title}, {whose}" for name in names for whose in ("ours", "paper")]
    return markdown(["Method", *titles], lines) if names else "None so far."


def order(table: pd.DataFrame) -> str:
    """Kendall's tau of our means with the paper's, of every data set that has all methods."""
    lines = []
    for name, task in TASKS.items():
        if task.stand_in:
            continue
        found = _tau(_main(table), name)
        if found is not None:
            p_value = "< 0.001" if found[1] < 0.001 else f"{found[1]:.3f}"
            lines.append([task.title, f"{found[0]:+.2f}", p_value])
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
    names = [name for name in TASKS if name in {name for _, name in found}]
    lines = []
    for label in dict.fromkeys(label for label, _ in found):
        cells = [found.get((label, name)) for name in names]
        lines.append([label, *("–" if c is None else shown(mean_interval(c)) for c in cells)])
    titles = [f"{TASKS[name].title}, {TASKS[name].metric}" for name in names]
    return markdown(["Method", *titles], sorted(lines))


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
    values = _by_map(table)
    names = [name for name in TASKS if any(of == name and by != _OWN for _, by, of in values)]
    lines = []
    for method, by in product(MAPPED, POSITIVE):
        cells = [NOT_RUN] * len(names)
        for at, name in enumerate(names):
            own = values.get((method, by, name))
            if own is not None:
                gap = _to_own_map(values, method, by, name)
                cells[at] = shown(mean_interval(own), mark="*" if gap.excludes(0.0) else "")
        lines.append([method, by, *cells])
    titles = [f"{TASKS[name].title}, {TASKS[name].metric}" for name in names]
    return markdown(["Method", "W+", *titles], lines)


def positive_counts(table: pd.DataFrame, which: str, *maps: str) -> str:
    """In how many cells these maps are significantly "better" or "worse" than the paper's own."""
    found, values = [], _by_map(table)
    for method, by, name in values:
        if by in (maps or POSITIVE) and by != _OWN:
            gap = _to_own_map(values, method, by, name)
            better = (gap.mean < 0.0) == TASKS[name].lower_is_better
            found.append(gap.excludes(0.0) and better == (which == "better"))
    return f"{sum(found)} of {len(found)}"


def _by_map(table: pd.DataFrame) -> dict[Any, pd.Series]:
    """Values of the metric of a task by method, map and data set."""
    rows = own_metric(table)
    by = [json.loads(text).get("positive", _OWN) for text in rows["settings"]]
    return samples(rows.assign(by=by), ["method", "by", "dataset"])


def _to_own_map(values: Mapping[Any, pd.Series], method: str, by: str, name: str) -> Interval:
    own = values.get((method, _OWN, name))
    return (
        Interval(math.nan, math.nan, 0)
        if own is None
        else paired_interval(values[method, by, name], own)
    )


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
