"""Prediction time against the number of revenues for one x: Table 8 of the paper."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import pandas as pd
import torch
from torch import Tensor

from reproduce.arguments import Refused, a_path, positive_count, torch_device
from reproduce.intervals import faster_from
from reproduce.methods import METHODS, Predictor, methods_of
from reproduce.rendering.markdown import NOT_RUN, markdown
from reproduce.results import versions, write_csv
from reproduce.runs import COLUMNS, Fit, as_json, read_results
from reproduce.tasks import PAPER, load, paper_hyperparameters

#: The paper's three baselines and GCM.
TIMED = methods_of("timing")
TREATMENTS = ("one by one", "at once", "cached")
REVENUES = tuple(2**power for power in range(11))


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


def measure(device: str, repeats: int, revenues: tuple[int, ...]) -> pd.DataFrame:
    """Median milliseconds a batch of 64 rows, the sides in turn in one process."""
    dataset = load("compas", "published")
    x = dataset.x[:64].float().to(device)
    every = dataset.r.float().to(device)
    sides = calls(device, x)
    rows = []
    for count in revenues:
        seconds: dict[tuple[str, str], list[float]] = {side: [] for side in sides}
        for repeat in range(repeats + 2):
            for side, call in sides.items():
                start = time.perf_counter()
                call(every[:count])
                if device != "cpu":
                    torch.cuda.synchronize(device)
                if repeat >= 2:
                    seconds[side].append(time.perf_counter() - start)
        for (method, treatment), taken in seconds.items():
            settings = as_json({"revenues": count, "x": treatment, "rows": len(x)})
            fit = Fit("timing", "compas", "published", "timing", "", 0, method, settings)
            cost = {"value": 1e3 * median(taken), "seconds": sum(taken), "epochs": 0}
            rows.append({**dataclasses.asdict(fit), "metric": "ms per batch", **cost})
    made = pd.DataFrame(rows).assign(device=device, versions=versions(device))
    return made[COLUMNS]


def by_revenues(table: pd.DataFrame, device: str = "cpu") -> pd.DataFrame:
    """Milliseconds: a row for each method and treatment of x, a column for each number of r."""
    table = table[table["device"] == device]
    options = [json.loads(settings) for settings in table["settings"]]
    columns = {name: [option[name] for option in options] for name in ("revenues", "x")}
    wide = table.assign(**columns).pivot_table("value", ["method", "x"], "revenues")
    return wide.loc[[side for side in itertools.product(TIMED, TREATMENTS) if side in wide.index]]


def paper_times() -> pd.DataFrame:
    """The paper's Table 8 in the same form."""
    table = pd.read_csv(PAPER / "inference_time.csv").assign(x="paper")
    return table.pivot_table("ms_per_batch", ["method", "x"], "number_of_r", sort=False)


def report(table: pd.DataFrame) -> str:
    """Milliseconds on every device, and those of the paper."""
    parts = []
    for device in sorted(set(table["device"])):
        wide, paper = by_revenues(table, device), paper_times()
        both = pd.concat([wide, paper[[count for count in wide.columns if count in paper]]])
        rows = [
            [str(method), str(treatment), *(f"{value:.2f}" for value in values)]
            for (method, treatment), values in zip(both.index, both.to_numpy(), strict=True)
        ]
        header = ["Method", "x", *(f"R = {count}" for count in both.columns)]
        parts.append(f"Device: {device}\n\n{markdown(header, rows)}")
    return "\n\n".join(parts)


def milliseconds(table: pd.DataFrame, method: str, treatment: str, count: str) -> str:
    """The time of a method on the CPU for a number of revenues."""
    times = by_revenues(table).T.get((method, treatment), pd.Series()).get(int(count))
    return NOT_RUN if times is None else f"{times:.0f}"


def faster(table: pd.DataFrame, treatment: str) -> str:
    """From which number of revenues on GCM is faster than each other method, on the CPU."""
    paper = treatment == "paper"
    wide = paper_times() if paper else by_revenues(table)
    gcm = wide.T.get(("GCM", "paper" if paper else "cached"))
    if gcm is None:
        return NOT_RUN
    clauses = []
    for method, way in wide.index:
        if way == treatment and method != "GCM":
            start = faster_from(gcm, wide.T[method, way])
            clauses.append(f"{method} {'never' if start is None else f'from R = {start} on'}")
    return ", ".join(clauses)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce timing`."""
    parser.add_argument("--repeats", type=positive_count, default=30)
    parser.add_argument(
        "--devices",
        nargs="+",
        type=torch_device,
        help="cpu, and cuda where there is one, by default",
    )
    parser.add_argument("--quick", action="store_true", help="two numbers of revenues, two repeats")
    parser.add_argument(
        "--output", type=a_path, default=Path("results"), help="folder of the results"
    )


def main(arguments: argparse.Namespace) -> None:
    """Measure, print milliseconds, and write the table."""
    torch.set_num_threads(1)
    devices = arguments.devices or ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    size = (2, (1, 64)) if arguments.quick else (arguments.repeats, REVENUES)
    path = arguments.output / "timing.csv"
    before = read_results(path)
    again = before["device"].isin(devices)
    there = {json.loads(settings)["revenues"] for settings in before.loc[again, "settings"]}
    if not there <= set(size[1]):
        raise Refused(f"{path} has more than --quick measures: pass another folder as --output")
    measured = pd.concat([measure(device, *size) for device in devices])
    print(f"Milliseconds for 64 rows\n\n{report(measured)}")
    kept = [before[~again]] if not again.all() else []
    write_csv(pd.concat([*kept, measured]), path)
    print(f"\nwritten: {path}")
