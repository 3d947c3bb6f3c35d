"""Prediction time against the number of revenues for one x: Table 8 of the paper."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from reproduce.benchmarks import paired
from reproduce.methods import METHODS, Predictor, methods_of
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, as_json
from reproduce.study import Study, named
from reproduce.tasks import PAPER, load, paper_hyperparameters

#: The paper's three baselines and GCM.
TIMED = methods_of("timing")
TREATMENTS = ("one by one", "at once", "cached")
#: Rows of x; calls of each side that are measured, after two that are not.
ROWS, REPEATS = 64, 30


def calls(device: str, x: Tensor) -> dict[tuple[str, str], Callable[[Tensor], Tensor]]:
    """(method, how x is treated) -> function of revenues [R, r_dim].

    "one by one" is what the paper's figures grow like: a call for every revenue. "at once" is one
    call for all pairs of x and r; "cached" encodes x once, which is how GCM does it.
    """
    dataset = load("compas", "published")
    table_5 = paper_hyperparameters("compas")
    latent = {"z_dim": table_5["z_dim"], "num_samples": table_5["num_particles"]}
    made: dict[tuple[str, str], Callable[[Tensor], Tensor]] = {}
    for method in TIMED:
        entry = METHODS[method]
        size = {"hidden": table_5["hidden"], **(latent if entry.latent else {})}
        model = entry.make(dataset.x_dim, dataset.r_dim, seed=0, **size).to(device).eval()
        made[method, "one by one"] = partial(_one_by_one, model, x)
        if not entry.latent:
            made[method, "at once"] = partial(model.surface, x, cached=False)
        made[method, "cached"] = partial(model.surface, x)
    return made


def _one_by_one(model: Predictor, x: Tensor, revenues: Tensor) -> Tensor:
    every = [model.predict(x, r.expand(len(x), -1)) for r in revenues]
    return torch.stack(every, dim=1)


def cells(fit: Fit) -> list[Fit]:
    """Every way of treating x, for as many revenues as 2 to the power in place of the seed."""
    sizes = {"revenues": 2**fit.seed, "rows": ROWS}
    ways = [way for way in TREATMENTS if way != "at once" or not METHODS[fit.method].latent]
    return [replace(fit, seed=0, settings=as_json({**sizes, "x": way})) for way in ways]


def run(fits: list[Fit], device: str = "cpu") -> list[Scores]:
    """Median milliseconds a batch of 64 rows, the sides in turn in one process."""
    dataset = load("compas", "published")
    revenues = dataset.r.float().to(device)
    sides = calls(device, dataset.x[:ROWS].float().to(device))
    repeats, found = fits[0].options.get("repeats", REPEATS), list[Scores]()

    def clock() -> float:
        if device != "cpu":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    for count, group in itertools.groupby(fits, lambda fit: fit.options["revenues"]):
        ways = [(fit.method, fit.options["x"]) for fit in group]
        timed = {way: partial(sides[way], revenues[:count]) for way in ways}
        for seconds in paired(timed, repeats, 2, clock).values():
            value, spent = 1e3 * median(seconds), sum(seconds)
            found.append({"ms per batch": value, "seconds": spent, "epochs": 0})
    return found


def by_revenues(table: pd.DataFrame, device: str = "cpu") -> pd.DataFrame:
    """Milliseconds: a row for each method and treatment of x, a column for each number of r.

    :raises ValueError: if one of them is there twice, as beside those of --quick.
    """
    table = table[table["device"] == device]
    options = [json.loads(settings) for settings in table["settings"]]
    table = table.assign(**{name: [o[name] for o in options] for name in ("x", "revenues")})
    wide = table.pivot(index=["method", "x"], columns="revenues", values="value")
    return wide.loc[[side for side in itertools.product(TIMED, TREATMENTS) if side in wide.index]]


def paper_times() -> pd.DataFrame:
    """The paper's Table 8 in the same form."""
    table = pd.read_csv(PAPER / "inference_time.csv").assign(x="paper")
    return table.pivot_table("ms_per_batch", ["method", "x"], "number_of_r", sort=False)


def report(table: pd.DataFrame) -> str:
    """Milliseconds for 64 rows on every device, and those of the paper."""
    parts, header = [], ["Method", "x"]
    for device in sorted(set(table["device"])):
        wide, paper = by_revenues(table, device), paper_times()
        both = pd.concat([wide, paper[[count for count in wide.columns if count in paper]]])
        sides: Any = zip(both.index, both.to_numpy(), strict=True)
        rows = [[*side, *(f"{value:.2f}" for value in line)] for side, line in sides]
        counts = [f"R = {count}" for count in both.columns]
        parts.append(f"Device: {device}\n\n{markdown([*header, *counts], rows)}")
    return "\n\n".join(parts)


def faster(table: pd.DataFrame, treatment: str) -> str:
    """From which number of revenues on GCM is faster than each other method, on the CPU.

    :param treatment: of x, or "printed" for the times of the paper.
    """
    times = by_revenues(table).T
    ours, clauses = times["GCM", "cached"], []
    if treatment == "printed":
        times = paper_times().T
        ours, treatment = times["GCM", "paper"], "paper"
    sides: Any = times.columns
    for method, way in sides:
        if way == treatment and method != "GCM":
            slower = (ours >= times[method, way]).reindex(ours.index)
            sizes = [int(size) for size in ours.index if not slower.loc[size:].any()]
            clauses.append(f"{method} {f'from R = {min(sizes)} on' if sizes else 'never'}")
    return ", ".join(clauses)


STUDY = Study(
    *("timing", str(__doc__), ["compas"], {name: METHODS[name] for name in TIMED}, run, "6"),
    count=11,
    counted="powers",
    quick_count=2,
    variant="published",
    protocol="timing",
    splits=named(""),
    cells=cells,
    quick={"repeats": 2},
    together=lambda fit: None,
    jobs=1,
)
