"""Numbers that stand in the sentences of the report."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from statistics import mean

import pandas as pd

from reproduce.auctions import GAIN, GAIN_ERROR
from reproduce.intervals import faster_from, mean_interval, meet, paired_interval, samples
from reproduce.markdown import NOT_RUN, markdown, number, shown
from reproduce.methods import METHODS
from reproduce.simulation import LEVELS
from reproduce.tables import intervals, paper_table_3
from reproduce.tasks import PAPER, TASKS, own_metric
from reproduce.timing import TIMED, by_revenues

TREATMENTS = ("one by one", "at once", "cached")
#: The "northeast" of the paper's ablation tables: D is at least, N at most this.
NORTHEAST = (12, 16)


def value(table: pd.DataFrame, name: str, method: str, metric: str | None = None) -> float:
    """Mean of a metric of a method on a data set; NaN where it was not run."""
    metric = metric or TASKS[name].metric
    rows = table[(table["dataset"] == name) & (table["method"] == method)]
    return float(rows.loc[rows["metric"] == metric, "value"].mean())


def means(table: pd.DataFrame) -> Mapping[tuple[str, str], float]:
    """Mean of the metric of each task by method and data set."""
    found: dict[tuple[str, str], float] = (
        own_metric(table).groupby(["method", "dataset"])["value"].mean().to_dict()
    )
    return found


def firsts(table: pd.DataFrame) -> str:
    """At how many levels GCM has the smallest mean error, among the methods that are there."""
    errors = table.pivot_table("value", "metric", "method")
    count = int((errors.idxmin(axis="columns") == "GCM").sum())
    return f"{count} of {len(LEVELS)}"


def violations(table: pd.DataFrame, method: str) -> str:
    """The smallest and the largest share of violating pairs over the data sets, in per cent."""
    rows = table[(table["method"] == method) & (table["metric"] == "violation rate")]
    rates = 100 * rows.groupby("dataset")["value"].mean()
    return f"{rates.min():.0f} to {rates.max():.0f} %" if len(rates) else NOT_RUN


def gains(table: pd.DataFrame) -> str:
    """Gain of the best epoch over the last one, mean over methods, by data set."""
    told = []
    for name, task in TASKS.items():
        rows = table[table["dataset"] == name]
        best, last = (
            samples(rows[rows["metric"] == f"{task.metric}{which}"], "method")
            for which in ("", ", last epoch")
        )
        differences = [paired_interval(best[m], last[m]).mean for m in best if m in last]
        finite = [abs(difference) for difference in differences if not math.isnan(difference)]
        if finite:
            told.append(f"{number(mean(finite))} on {task.title}")
    return ", ".join(told)


def apart(table: pd.DataFrame, name: str) -> str:
    """How many of our cells differ from the paper's on a data set, and by how much."""
    task, theirs = TASKS[name], paper_table_3()
    ours = intervals(own_metric(table[table["dataset"] == name]), "method")
    pairs = [
        (ours[key], theirs[entry.paper, name])
        for method, entry in METHODS.items()
        if entry.paper and (key := (method,)) in ours
    ]
    gaps = [our.mean - their.mean for our, their in pairs if not math.isnan(our.mean)]
    if not gaps:
        return NOT_RUN
    count = sum(meet(*pair) is False for pair in pairs)
    better = sum(gap < 0 if task.lower_is_better else gap > 0 for gap in gaps)
    return (
        f"{count} of {len(pairs)} comparisons have a dagger, and in {better} ours is better; ours "
        f"minus the paper's {task.metric} is from {min(gaps):+.4f} to {max(gaps):+.4f}."
    )


def gain_in_errors(table: pd.DataFrame) -> str:
    """The gain by revealed prices in paired standard errors: the least and the most of the seeds."""
    wide = table.pivot(index="seed", columns="metric", values="value")
    ratio = wide[GAIN] / wide[GAIN_ERROR]
    return f"{ratio.min():.1f} to {ratio.max():.1f}"


def times(table: pd.DataFrame, device: str = "cpu") -> pd.DataFrame:
    """Milliseconds on a device, the sides in the order of the paper."""
    wide = by_revenues(table[table["device"] == device]).sort_index(axis="columns")
    return wide.loc[[s for s in itertools.product(TIMED, TREATMENTS) if s in wide.index]]


def paper_times() -> pd.DataFrame:
    """The paper's Table 8 in the same form."""
    table = pd.read_csv(PAPER / "inference_time.csv").assign(x="paper")
    return table.pivot_table("ms_per_batch", ["method", "x"], "number_of_r", sort=False)


def milliseconds(table: pd.DataFrame, method: str, treatment: str, count: str) -> str:
    """The time of a method for a number of revenues."""
    wide, size = times(table), int(count)
    if (method, treatment) not in wide.index or size not in wide.columns:
        return NOT_RUN
    return f"{wide.T[method, treatment][size]:.0f}"


def faster(table: pd.DataFrame, treatment: str) -> str:
    """From which number of revenues on GCM is faster than each other method."""
    wide = paper_times() if treatment == "paper" else times(table)
    gcm = ("GCM", "paper" if treatment == "paper" else "cached")
    others = [side for side in wide.index if side[1] == treatment and side[0] != "GCM"]
    if gcm not in wide.index or not others:
        return NOT_RUN
    clauses = []
    for side in others:
        start = faster_from(wide.T[gcm], wide.T[side])
        clauses.append(f"{side[0]} {'never' if start is None else f'from R = {start} on'}")
    return ", ".join(clauses)


def ablation_effects(table: pd.DataFrame) -> str:
    """How much the cells differ: a row a label and method, ours and the paper's."""
    paper = pd.read_csv(PAPER / "ablation_adult.csv").assign(seed=0)
    paper = paper.rename(columns={"latent_dim": "D", "sample_number": "N", "auc": "value"})
    sources = [
        (f"{method}, {variant} label", rows)
        for (variant, method), rows in sorted(table.groupby(["variant", "method"]), reverse=True)
    ]
    sources += [(f"{method}, paper", rows) for method, rows in paper.groupby("method")]
    lines = []
    for title, cells in sources:
        by_cell = cells.groupby(["N", "D"])["value"].mean()
        effects = [_ends(cells, "N"), _ends(cells, "D"), _northeast(cells)]
        texts = [shown(mean_interval(effect)) for effect in effects]
        lines.append([title, number(by_cell.max() - by_cell.min()), *texts])
    header = ["", "Range of the cells", "Largest minus smallest N", "Largest minus smallest D"]
    return markdown([*header, "Northeast minus the rest"], lines)


def _ends(cells: pd.DataFrame, size: str) -> pd.Series:
    by_seed = cells.pivot_table("value", "seed", size)
    return by_seed[by_seed.columns.max()] - by_seed[by_seed.columns.min()]


def _northeast(cells: pd.DataFrame) -> pd.Series:
    inside = (cells["D"] >= NORTHEAST[0]) & (cells["N"] <= NORTHEAST[1])
    by_seed = cells.assign(inside=inside).pivot_table("value", "seed", "inside")
    return by_seed.reindex(columns=[True, False]).diff(-1, axis="columns")[True].dropna()
