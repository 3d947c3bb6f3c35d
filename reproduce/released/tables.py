"""Tables of the released protocol: beside the paper's Table 3, and one change at a time.

Functions have a table of the fits of Table 3, unless they say something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd
from scipy.stats import kendalltau

from reproduce.intervals import Interval, gaps, mean_interval, mean_intervals, meet, samples, stars
from reproduce.released.networks import FORMS, POSITIVE
from reproduce.released.rows import KNOWN_ROWS
from reproduce.released.training import CHANGES, MAPPED, Z_DIM, changes_of, settings_of
from reproduce.rendering.markdown import NOT_RUN, cross_table, markdown, number, shown
from reproduce.rendering.tables import headings, paper_table_3, scored
from reproduce.runs import as_json
from reproduce.tasks import TASKS, own_metric

#: What the networks of GCM and IGCM have unless a call says otherwise.
_MAIN = {"loss_type": 0, "z_dim": Z_DIM}
_AS_IT_IS = "as released"
#: The paper's own map to positive weights.
_OWN = next(iter(POSITIVE))
#: By method and data set.
Cells = Mapping[Any, Interval]


def main_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The fits of Table 3 among all: of GCM and IGCM those with what the code has."""
    of = {
        text: all(_MAIN[k] == v or v == 2 for k, v in _own(text)) for text in set(table["settings"])
    }
    return table[table["settings"].map(of).astype(bool)]


def _own(settings: str) -> tuple[tuple[str, Any], ...]:
    """The settings of a network, those that a method has."""
    found = json.loads(settings)
    return tuple((key, found[key]) for key in _MAIN if key in found)


def _means(table: pd.DataFrame) -> Cells:
    return mean_intervals(scored(table)[0])


def _pairs(table: pd.DataFrame) -> dict[tuple[str, str], tuple[Interval, Interval]]:
    """Our means and the paper's, where there are both."""
    theirs = paper_table_3()
    return {key: (cell, theirs[key]) for key, cell in _means(table).items() if key in theirs}


def share(table: pd.DataFrame, *names: str) -> str:
    """How many of our cells meet the paper's, on some data sets; those of known rows by default."""
    among = names or KNOWN_ROWS
    met = [meet(*pair) for (_, name), pair in _pairs(table).items() if name in among]
    return f"{met.count(True)} of {len(met) - met.count(None)}"


def order(table: pd.DataFrame) -> str:
    """Kendall's tau of our means with the paper's, of every data set of the paper."""
    means, lines = _means(table), []
    for name, title in headings(table["dataset"]).items():
        if not TASKS[name].stand_in:
            tau, p = _tau(means, name)
            lines.append([title, f"{tau:+.2f}", "< 0.001" if p < 0.001 else f"{p:.3f}"])
    return markdown(["Data set", "Kendall's tau", "p-value"], lines)


def _tau(found: Cells, name: str) -> tuple[float, float]:
    theirs = {method: cell.mean for (method, of), cell in paper_table_3().items() if of == name}
    result = kendalltau([found[m, name].mean for m in theirs], [*theirs.values()])
    return float(result.statistic), float(result.pvalue)


def networks(table: pd.DataFrame) -> str:
    """GCM and IGCM with every setting that their networks may have had, of all fits."""
    values = samples(own_metric(table), ["method", "dataset", "settings"])
    cells = {
        (f"{method}, " + ", ".join(f"{key} {value}" for key, value in own), name): each
        for (method, name, settings), each in values.items()
        if (own := _own(settings))
    }
    texts = {key: shown(mean_interval(each)) for key, each in cells.items()}
    rows = sorted({row for row, _ in cells})
    return cross_table(texts, rows, headings(table["dataset"], metric=True), lacking="–")


def changes(table: pd.DataFrame, name: str) -> str:
    """A line for each change: the mean of every method, the places of GCM and IGCM, and tau.

    :param table: of the changes.
    """
    lines = []
    for change in (_AS_IT_IS, *CHANGES):
        if change == _AS_IT_IS or any(change in changes_of(name, method) for method in FORMS):
            cells = _after(table, name, change)
            places = [_place(cells, name, method) for method in ("GCM", "IGCM")]
            means = [number(cells[method, name].mean) for method in FORMS]
            lines.append([change, *means, *places, f"{_tau(cells, name)[0]:+.2f}"])
    return markdown(["Change", *FORMS, "place of GCM", "place of IGCM", "tau"], lines)


def _after(table: pd.DataFrame, name: str, change: str) -> Cells:
    """Means and intervals after a change.

    A method that it is not about keeps the numbers of the released protocol.
    """
    rows = own_metric(table[table["dataset"] == name])
    values, cells = samples(rows, ["method", "settings"]), {}
    for method in FORMS:
        wanted = {**settings_of(name, method)[0], **changes_of(name, method).get(change, {})}
        cells[method, name] = mean_interval(values[method, as_json(wanted)])
    return cells


def _place(found: Cells, name: str, method: str) -> str:
    """The place of a method among the nine of the paper."""
    sign = 1.0 if TASKS[name].lower_is_better else -1.0
    means = [sign * found[m, name].mean for m in FORMS if m != "MLP"]
    return str(1 + sum(mean < sign * found[method, name].mean for mean in means))


def positive_maps(table: pd.DataFrame) -> str:
    """Mean of each map to positive weights; * where the paired difference to the first is not 0.

    :param table: of the maps, and of Table 3, whose map is the first.
    """
    values, behind = _by_map(table)
    columns = headings((name for _, by, name in values if by != _OWN), metric=True)
    marks = stars(behind)
    lines = []
    for method, by in product(MAPPED, POSITIVE):
        keys = [(method, by, name) for name in columns]
        texts = [
            shown(mean_interval(values[key]), mark=marks.get(key, "")) if key in values else NOT_RUN
            for key in keys
        ]
        lines.append([method, by, *texts])
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
    own = {key: values[key[0], _OWN, key[2]] for key in values if (key[0], _OWN, key[2]) in values}
    return values, gaps(values, own, test_to_train=0.0)
