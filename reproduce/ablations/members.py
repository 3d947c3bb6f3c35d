"""What each part of members is worth: one change from the default settings at a time.

The settings are those of `MemberSettings.for_table` on the training rows of random 4:1 splits, and
nothing is tuned anew for a change. "Separate networks" share no weights: each is a fit with one
member, as many of them as the default has members, and the prediction is the mean of theirs. Times
are CPU times of a thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import pandas as pd

from pyro_gcm import fit_members
from pyro_gcm.models.members import MemberSettings
from reproduce.intervals import gaps, mean_intervals, samples, stars
from reproduce.rendering.markdown import markdown, shown
from reproduce.runs import Fit, Scores, Settings, as_json, nan_if_diverged
from reproduce.scores import distribution_scores
from reproduce.study import Study
from reproduce.tasks import TASKS, load, rows_of_fit

DEFAULT = "default"
#: Methods of which K fits with one member take the place of one fit with K.
SEPARATE = ("encoder: separate networks", "encoder: separate networks, no PLE")
#: Method -> the settings that differ from the default. Where none does on some data, the default
#: is the method, and is fitted once.
LEVELS: dict[str, Settings] = {
    DEFAULT: {},
    **{f"members: K = {k}": {"members": k} for k in (1, 4, 8, 16, 32)},
    "encoder: signs on the input": {"scaling": "input"},
    "encoder: signs on the output": {"scaling": "output"},
    "encoder: ramps without steps": {"steps": 0.0},
    "encoder: no PLE": {"bins": 0, "steps": 0.0},
    SEPARATE[0]: {},
    SEPARATE[1]: {"bins": 0, "steps": 0.0},
    # One ramp goes from the lowest value of a revenue to the highest that 20 rows reach. Unless the
    # map is flat, the squashed linear term stands beside it; if it is, it is linear between them.
    "map: flat beyond the knots": {"flat": True},
    "map: one ramp": {"knots": 1},
    "map: linear": {"knots": 1, "flat": True},
    **{f"costs: {g}x{c}": {"alternatives": g, "costs": c} for g, c in ((1, 1), (3, 3), (6, 4))},
}


def cells(fit: Fit) -> Iterable[Fit]:
    """A method with its settings written out in full, unless they are those of the default.

    So results of another default are not taken for those of this one. `fits` is the number of fits
    that are averaged.
    """
    dataset = load(fit.dataset, fit.variant)
    rows = len(dataset.split(int(fit.split))[0])
    default = MemberSettings.for_table(rows, dataset.x_dim, dataset.r_dim)
    start = {**asdict(default), "fits": 1}
    settings = {**start, **LEVELS[fit.method]}
    if fit.method in SEPARATE:
        settings |= {"members": 1, "fits": default.members}
    if fit.method != DEFAULT and settings == start:
        return []
    return [replace(fit, settings=as_json(settings))]


@nan_if_diverged(lambda fit: _metrics(fit.dataset))
def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one cell on one split."""
    dataset, learn, test, options = rows_of_fit(fit)
    count = options.pop("fits")
    columns = dataset.x[learn], dataset.r[learn], dataset.y[learn]
    more: Any = {"response": dataset.response, "device": device, "progress": False}
    start, settings = time.process_time(), MemberSettings(**options)
    fitted = [
        fit_members(*columns, settings=settings, seed=fit.seed * count + place, **more)
        for place in range(count)
    ]
    cost = {
        "seconds": time.process_time() - start,
        "epochs": sum(len(each.result.rows) for each in fitted),
    }
    models = [each.model for each in fitted]
    return {**distribution_scores(dataset, models, test, device), **cost}


def _metrics(name: str) -> tuple[str, str]:
    """RMSE, or the AUC of a binary outcome, and the log score."""
    return ("RMSE" if TASKS[name].lower_is_better else "AUC"), "log score"


def report(table: pd.DataFrame, name: str) -> str:
    """The scores of the default on a data set, and what each change gains.

    * where the corrected 95 % interval of the paired difference excludes 0.
    """
    rows, metrics = table[table["dataset"] == name], _metrics(name)
    seconds = rows[rows["metric"] == metrics[0]].groupby("method")["seconds"].median()
    values = samples(rows, ["method", "metric"])
    start = {(method, metric): values[DEFAULT, metric] for method, metric in values}
    cells = gaps(values, start, ["RMSE"])
    marks = stars(cells) | dict.fromkeys(product([DEFAULT], metrics), "")
    cells |= mean_intervals({(DEFAULT, metric): values[DEFAULT, metric] for metric in metrics})
    lines = []
    for level in (level for level in LEVELS if level in seconds):
        part, _, change = level.rpartition(": ")
        texts = (shown(cells[level, m], mark=marks[level, m]) for m in metrics)
        lines.append([part, change, *texts, f"{seconds[level]:.1f}"])
    return markdown(["Part", "Change", *(f"{m}: gain" for m in metrics), "CPU seconds"], lines)


STUDY = Study(
    *("members_ablation", str(__doc__), ["adult", "auto_mpg"], LEVELS, run, "8"),
    count=3,
    counted="seeds",
    cells=cells,
    quick={"rows": 200, "epochs": 1},
)
