"""Quantile regression on simulated data: Table 1 and Figure 6 of the paper (section 4.1)."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.optim import Optimizer

from pyro_gcm import GCM, fit
from pyro_gcm.baselines import MLP
from reproduce import simulation
from reproduce.quantile_figure import draw_curves
from reproduce.results import (
    RESULTS,
    Tables,
    clear_parts,
    cores,
    run_parts,
    versions,
    write_csv,
)

STAGES = (0, 50, 200, 1000, 5000)
PAPER = Path(__file__).parent / "paper" / "quantile_mae.csv"

Predict = Callable[[Tensor, Tensor], Tensor]
Callback = Callable[[int, Predict], None]


def train_gcm(
    data: tuple[Tensor, Tensor, Tensor], options: dict[str, Any], seed: int, callback: Callback
) -> Predict:
    """GCM with a quantile response."""
    model = GCM(1, 1, response="quantile", hidden=32, revenue_map=options["revenue_map"], seed=seed)
    sgd = options["optimizer"] == "sgd"
    fit(
        model,
        *data,
        epochs=1,
        batch_size=options["batch_size"],
        num_particles=options["num_particles"],
        learning_rate=options["learning_rate"],
        optimizer=torch.optim.SGD if sgd else None,
        schedule=None if sgd else "cosine",
        seed=seed,
        device="cpu",
        progress=False,
        callback=lambda step: callback(step, model.predict),
    )
    return model.predict


def train_mlp(
    data: tuple[Tensor, Tensor, Tensor], options: dict[str, Any], seed: int, callback: Callback
) -> Predict:
    """An unconstrained perceptron of (x, level) under the pinball loss."""
    x, level, y = data
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MLP(1, 1, hidden=32)
    sgd = options["optimizer"] == "sgd"
    kind = torch.optim.SGD if sgd else partial(torch.optim.Adam, fused=True)
    optimizer: Optimizer = kind(model.parameters(), lr=options["learning_rate"])
    steps = len(y) // options["batch_size"]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    callback(0, model.predict)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    for step, batch in enumerate(order.split(options["batch_size"]), start=1):
        optimizer.zero_grad()
        model.loss(x[batch], level[batch], y[batch]).backward()
        optimizer.step()
        if not sgd:
            schedule.step()
        callback(step, model.predict)
    return model.predict


#: Name -> function that trains the method and returns its prediction of a quantile.
METHODS = {"GCM": train_gcm, "MLP": train_mlp}


def run(method: str, seed: int, options: dict[str, Any]) -> Tables:
    """Train one method on one seed: rows of its errors and, for the figure, of its curves."""
    data = simulation.sample(options["batch_size"] * options["iterations"], seed)
    grid = torch.linspace(*simulation.X_RANGE, 121)
    curves: list[dict[str, Any]] = []

    def watch(step: int, predict: Predict) -> None:
        if seed != options["figure_seed"] or step not in options["stages"]:
            return
        for level in simulation.LEVELS:
            y = predict(grid.unsqueeze(-1), torch.full((len(grid), 1), level))
            curves.extend(
                {"method": method, "step": step, "r": level, "x": a, "y": b}
                for a, b in zip(grid.tolist(), y.tolist(), strict=True)
            )

    start = time.perf_counter()
    predict = METHODS[method](data, options, seed, watch)
    seconds = time.perf_counter() - start
    x = simulation.covariate(options["test_rows"], torch.Generator().manual_seed(1_000 + seed))
    rows = []
    for level in simulation.LEVELS:
        predicted = predict(x.unsqueeze(-1), torch.full((len(x), 1), level))
        error = (predicted - simulation.quantile(x, level)).abs().mean().item()
        rows.append(
            {
                "experiment": "quantile",
                "dataset": "simulation",
                "seed": seed,
                "method": method,
                "setting": options["setting"],
                "r": level,
                "metric": "MAE",
                "value": error,
                "seconds": seconds,
                "versions": versions(),
            }
        )
    return {"errors": rows, "curves": curves}


def report(errors: pd.DataFrame) -> str:
    """Our table beside the paper's: mean absolute error with a 95 % interval over seeds."""
    ours = errors.groupby(["method", "r"], sort=False)["value"].agg(["mean", "std", "count"])
    # The paper does not say how its intervals were made; ours is the normal one of the mean.
    ours["ci95"] = 1.96 * ours["std"] / ours["count"] ** 0.5
    paper = pd.read_csv(PAPER).set_index(["method", "r"])
    lines = [f"{'':18s}" + "".join(f"   r={level:<11}" for level in simulation.LEVELS)]
    for source, table, value in (("ours", ours, "mean"), ("paper", paper, "mae")):
        for method in table.index.get_level_values(0).unique():
            cells = [table.loc[(method, level)] for level in simulation.LEVELS]
            lines.append(
                f"{method:10s}{source:8s}"
                + "".join(f"   {cell[value]:.4f} ±{cell['ci95']:.4f}" for cell in cells)
            )
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce quantile`."""
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds, from 0")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--learning-rate", type=float, help="0.01 for adam, 0.1 for sgd")
    parser.add_argument("--revenue-map", choices=["identity", "probit"], default="probit")
    parser.add_argument("--num-particles", type=int, default=8, help="draws of z a row and step")
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--test-rows", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes, one a core")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")


def main(arguments: argparse.Namespace) -> None:
    """Run, print the table, write the CSV files and the figure."""
    rate = arguments.learning_rate or {"adam": 0.01, "sgd": 0.1}[arguments.optimizer]
    setting = (
        f"{arguments.optimizer} {rate:g}, {arguments.revenue_map} map, "
        f"{arguments.num_particles} draws"
    )
    options = {
        "setting": setting,
        "optimizer": arguments.optimizer,
        "learning_rate": rate,
        "revenue_map": arguments.revenue_map,
        "num_particles": arguments.num_particles,
        "iterations": arguments.iterations,
        "batch_size": arguments.batch_size,
        "test_rows": arguments.test_rows,
        "stages": [min(stage, arguments.iterations) for stage in STAGES],
        "figure_seed": 0,
    }
    parts = [
        {"method": method, "seed": seed, "options": options}
        for seed in range(arguments.seeds)
        for method in arguments.methods
    ]
    tables = run_parts("quantile", parts, run, arguments.jobs)
    print(f"\nMean absolute error of the predicted quantiles, {setting}, {arguments.seeds} seeds")
    print(report(tables["errors"]))
    stem = "quantile" + "".join(
        f"_{value}"
        for value, default in ((arguments.optimizer, "adam"), (arguments.revenue_map, "probit"))
        if value != default
    )
    table, figure = arguments.output / f"{stem}.csv", arguments.output / f"{stem}_curves.png"
    write_csv(tables["errors"], table)
    draw_curves(tables["curves"], figure)
    clear_parts("quantile")
    print(f"\nwritten: {table}\n         {figure}")
