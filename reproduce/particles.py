"""Draws of z in training: fewer points of a randomised Sobol sequence against random draws."""

from __future__ import annotations

import argparse
import json

import pandas as pd

from reproduce.arguments import positive_count
from reproduce.intervals import paired_interval
from reproduce.rendering.markdown import markdown, shown
from reproduce.runs import Fit, add_run_arguments, as_json, run_fits
from reproduce.searching import open_track
from reproduce.tasks import TASKS

#: Kind and number of the draws for each row and step; the first is what the others are held to.
DRAWS = (("random", 32), ("random", 8), ("qmc", 8), ("qmc", 16))
QUICK = {"rows": 300, "epochs": 1}


def fits(splits: int, datasets: list[str], quick: bool) -> list[Fit]:
    """A GCM with its default sizes for every data set, split and kind of draws."""
    made = []
    for name in datasets:
        task = TASKS[name]
        for split in range(1 if quick else splits):
            for kind, number in DRAWS:
                settings = {
                    "epochs": task.epochs,
                    "batch_size": task.batch_size,
                    "schedule": "cosine",
                    "particles": kind,
                    "num_particles": number,
                    **(QUICK if quick else {}),
                }
                cell = ("particles", name, "default", "held-out", str(split), split)
                made.append(Fit(*cell, "GCM", as_json(settings)))
    return made


def report(table: pd.DataFrame) -> str:
    """Gain in log score over the first kind of draws, in nats a row, and the ratio of times."""
    table = table[table["metric"] == "log score"]
    options = [json.loads(settings) for settings in table["settings"]]
    table = table.assign(draws=[f"{o['particles']} {o['num_particles']}" for o in options])
    names = [f"{kind} {number}" for kind, number in DRAWS]
    lines = []
    for dataset, rows in table.groupby("dataset", sort=False):
        scores = rows.pivot_table("value", "split", "draws")
        seconds = rows.pivot_table("seconds", "split", "draws")
        line = [TASKS[str(dataset)].title, f"{scores[names[0]].mean():.4f}"]
        for name in names[1:]:
            gain = paired_interval(scores[name], scores[names[0]])
            line.append(f"{shown(gain)}, {(seconds[name] / seconds[names[0]]).median():.2f}")
        lines.append(line)
    header = ["", f"{names[0]}: log score", *(f"{name}: gain, time" for name in names[1:])]
    return markdown(header, lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce particles`."""
    parser.add_argument("--splits", type=positive_count, default=3)
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=list(TASKS))
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the table lacks, and print the gains."""
    path = arguments.output / "particles.csv"
    cells = fits(arguments.splits, arguments.datasets, arguments.quick)
    table = run_fits(path, cells, open_track.run, arguments)
    print(f"\nHeld-out log score in nats a row\n\n{report(table)}\n\nwritten: {path}")
