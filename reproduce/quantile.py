"""Quantile regression on simulated data: Table 1 and Figure 6 of the paper (section 4.1)."""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from pyro_gcm.baselines.baseline import pinball_loss
from pyro_gcm.training import Diverged
from reproduce import simulation
from reproduce.arguments import positive_count
from reproduce.drawing import draw_curves
from reproduce.intervals import paired_interval, samples
from reproduce.markdown import beside, grid
from reproduce.methods import (
    METHODS,
    Predictor,
    Rows,
    check_weights,
    levels,
    methods_of,
    train,
)
from reproduce.results import write_csv
from reproduce.runs import Fit, Scores, Settings, add_run_arguments, as_json, run_fits
from reproduce.tables import intervals, paper_cells, star
from reproduce.tuning import VALIDATION_LOSS, add_tune_argument, best_settings, trials

#: The paper leaves IGCM out, for a quantile is strictly increasing in its level; boosting has no
#: monotone form of the level as an input under the pinball loss in scikit-learn.
QUANTILE_METHODS = methods_of("quantile")
#: With one revenue there is one alternative: the own setting of GCM here is the dimension of z.
DIMENSIONS = levels("z_dim", 4, 2, 1)
LEVEL_METRICS = {f"MAE r={level}": f"r = {level}" for level in simulation.LEVELS}
LOWER = dict.fromkeys(LEVEL_METRICS, True)
STAGES = (0, 50, 200, 1000, 5000)
FIGURE_SEED, VALIDATION_SEED, TEST_SEED = 0, 10_000, 1_000
FIGURE_X = 61
BATCH, STEPS, TEST_ROWS = 20, 5000, 1000


def candidates(method: str, quick: bool) -> list[str]:
    """The six settings of a method, as JSON; one, and few steps, if quick."""
    base: Settings = {"optimizer": "adam", "schedule": "cosine"}
    latent = METHODS[method].latent
    if latent:
        base |= {"num_particles": 8, "revenue_map": "probit"}
    settings = [{**base, **trial} for trial in trials(method, DIMENSIONS if latent else None)]
    return [as_json({**s, "steps": 30} if quick else s) for s in settings[: 1 if quick else None]]


def paper_settings(method: str, quick: bool) -> str:
    """Plain SGD as in the paper, which gives no learning rate; GCM with its identity map."""
    settings: Settings = {"optimizer": "sgd", "learning_rate": 0.1, "hidden": 32}
    if METHODS[method].latent:
        settings |= {"num_particles": 8, "revenue_map": "identity"}
    return as_json({**settings, "steps": 30} if quick else settings)


def run(fit: Fit, device: str = "cpu", curves: Path | None = None) -> Scores:
    """One fit: errors at the five levels, or the loss on validation rows.

    :param curves: folder for the curves of the figure's seed.
    """
    settings = fit.options
    steps = settings.pop("steps", STEPS)
    tuning = fit.protocol == "tuning"
    x, level, y = simulation.sample(BATCH * steps, VALIDATION_SEED if tuning else fit.seed)
    drawn: list[dict[str, object]] = []
    grid = torch.linspace(*simulation.X_RANGE, FIGURE_X)

    def watch(step: int, model: Predictor) -> None:
        if step not in STAGES and step != steps:
            return
        check_weights(model)
        for r in simulation.LEVELS:
            predicted = _predict(model, grid, r, device)
            points = {f"{a:.2f}": b for a, b in zip(grid.tolist(), predicted.tolist(), strict=True)}
            drawn.append({"method": fit.method, "step": step, "r": r, **points})

    shown = curves is not None and fit.seed == FIGURE_SEED and not tuning
    start = time.perf_counter()
    try:
        model, _ = train(
            fit.method,
            Rows(x, level, y, "quantile"),
            {**settings, "epochs": 1, "batch_size": BATCH},
            fit.seed,
            device=device,
            watch=watch if shown else None,
        )
    except Diverged:
        metrics = [VALIDATION_LOSS] if tuning else list(LEVEL_METRICS)
        return {**dict.fromkeys(metrics, math.nan), "seconds": 0.0, "epochs": 0}
    cost = {"seconds": time.perf_counter() - start, "epochs": 1}
    if tuning:
        x, level, y = simulation.sample(10 * TEST_ROWS, VALIDATION_SEED + 1)
        prediction = model.predict(x.to(device), level.to(device)).cpu()
        return {VALIDATION_LOSS: float(pinball_loss(prediction, level[:, 0], y)), **cost}
    if shown and curves is not None:
        write_csv(pd.DataFrame(drawn), curves / f"{fit.method}.csv")
    x = simulation.covariate(TEST_ROWS, torch.Generator().manual_seed(TEST_SEED + fit.seed))
    errors = {
        f"MAE r={r}": float(
            (_predict(model, x, r, device) - simulation.quantile(x, r)).abs().mean()
        )
        for r in simulation.LEVELS
    }
    return {**errors, **cost}


def _predict(model: Predictor, x: torch.Tensor, level: float, device: str) -> torch.Tensor:
    levels = torch.full((len(x), 1), level, device=device)
    return model.predict(x.unsqueeze(-1).to(device), levels).cpu()


def errors(table: pd.DataFrame) -> str:
    """Mean absolute error of every method at every level."""
    return grid(intervals(table, "method", "metric"), LEVEL_METRICS, LOWER)


def differences_to_gcm(table: pd.DataFrame) -> str:
    """Paired difference of the errors, method minus GCM; * where its interval excludes 0."""
    values = samples(table, ["method", "metric"])
    cells = {
        (method, metric): paired_interval(each, values["GCM", metric])
        for (method, metric), each in values.items()
        if method != "GCM" and ("GCM", metric) in values
    }
    return grid(cells, LEVEL_METRICS, marks={key: star(cell) for key, cell in cells.items()})


def report(table: pd.DataFrame) -> str:
    """The errors beside those of the paper's Table 1."""
    paper = paper_cells("quantile_mae", "method", "r", "mae", "ci95")
    theirs = {(method, f"MAE r={level}"): cell for (method, level), cell in paper.items()}
    partners = {name: method.paper for name, method in METHODS.items()}
    return beside(intervals(table, "method", "metric"), theirs, partners, LEVEL_METRICS, LOWER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce quantile`."""
    parser.add_argument("--seeds", type=positive_count, default=10, help="number of seeds, from 0")
    parser.add_argument("--methods", nargs="+", choices=QUANTILE_METHODS, default=QUANTILE_METHODS)
    parser.add_argument("--setting", choices=["tuned", "paper"], default="tuned")
    add_tune_argument(parser)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the table lacks, print it and draw the figure."""
    seeds = range(min(2, arguments.seeds) if arguments.quick else arguments.seeds)
    best = _settings(arguments)
    stem = "quantile" if arguments.setting == "tuned" else "quantile_paper_setting"
    fits = [
        Fit("quantile", "simulation", "default", arguments.setting, "", seed, method, best[method])
        for seed in seeds
        for method in arguments.methods
    ]
    curves = arguments.output / f"{stem}_curves"
    path = arguments.output / f"{stem}.csv"
    table = run_fits(path, fits, partial(run, curves=curves), arguments)
    print(f"\nMean absolute error of the predicted quantiles, {len(seeds)} seeds")
    print(report(table))
    figure = arguments.output / f"{stem}_curves.png"
    drawn = [file for method in arguments.methods if (file := curves / f"{method}.csv").exists()]
    print(f"\nwritten: {path}")
    if drawn:
        draw_curves(pd.concat([pd.read_csv(file) for file in drawn]), figure)
        print(f"         {figure}")


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of every method, from the stored trials or from new ones."""
    if arguments.setting == "paper":
        return {m: paper_settings(m, arguments.quick) for m in arguments.methods}
    options = {("simulation", m): candidates(m, arguments.quick) for m in arguments.methods}
    best = best_settings("quantile", options, run, arguments, split="")
    return {method: settings for (_, method), settings in best.items()}
