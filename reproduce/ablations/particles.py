"""Draws of z in training: fewer points of a randomised Sobol sequence against random draws."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from reproduce.intervals import paired_interval
from reproduce.rendering.markdown import markdown, shown
from reproduce.runs import Fit, as_json
from reproduce.searching.open_track import run
from reproduce.study import Study
from reproduce.tasks import TASKS

#: Kind and number of the draws for each row and step; the first is what the others are held to.
DRAWS = (("random", 32), ("random", 8), ("qmc", 8), ("qmc", 16))


def cells(fit: Fit) -> Iterable[Fit]:
    """A GCM with its default sizes and each kind of draws."""
    task = TASKS[fit.dataset]
    shared = {"epochs": task.epochs, "batch_size": task.batch_size, "schedule": "cosine"}
    return [
        replace(fit, settings=as_json({**shared, "particles": kind, "num_particles": number}))
        for kind, number in DRAWS
    ]


def report(table: pd.DataFrame) -> str:
    """Gain in log score over the first kind of draws, in nats a row, and the ratio of times."""
    table = table[table["metric"] == "log score"]
    options = [json.loads(settings) for settings in table["settings"]]
    table = table.assign(draws=[f"{o['particles']} {o['num_particles']}" for o in options])
    first, *others = (f"{kind} {number}" for kind, number in DRAWS)
    lines = []
    for dataset, rows in table.groupby("dataset", sort=False):
        scores = rows.pivot(index="split", columns="draws", values="value")
        seconds = rows.pivot(index="split", columns="draws", values="seconds")
        line = [TASKS[str(dataset)].title, f"{scores[first].mean():.4f}"]
        for name in others:
            gain = shown(paired_interval(scores[name], scores[first]))
            line.append(f"{gain}, {(seconds[name] / seconds[first]).median():.2f}")
        lines.append(line)
    return markdown(["", f"{first}: log score", *(f"{n}: gain, time" for n in others)], lines)


STUDY = Study(
    *("particles", str(__doc__), {name: task.title for name, task in TASKS.items()}),
    *({"GCM": None}, run, report),
    count=3,
    cells=cells,
    quick={"rows": 300, "epochs": 1},
)
