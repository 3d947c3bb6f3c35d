"""Quantile regression on simulated data: Table 1 and Figure 6 of the paper (section 4.1).

Setting "tuned" is the best of six of every method, as `methods/chosen.json` has it, and "paper" is
plain SGD, for which the paper gives no learning rate.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from reproduce.data import simulation
from reproduce.intervals import mean_intervals, samples, stars
from reproduce.methods import CHOSEN, METHODS, Predictor, Rows, made, methods_of
from reproduce.methods.together import fit_together, is_finite
from reproduce.rendering.markdown import beside, grid
from reproduce.rendering.tables import paper_cells, to_reference
from reproduce.runs import Fit, Scores, Settings, write_csv
from reproduce.study import Protocols, Study, but_the_seed, named

#: The paper leaves IGCM out, for a quantile is strictly increasing in its level; boosting has no
#: monotone form of the level as an input under the pinball loss in scikit-learn.
QUANTILE_METHODS = methods_of("quantile")
LEVEL_METRICS = {f"MAE r={level}": f"r = {level}" for level in simulation.LEVELS}
LOWER = dict.fromkeys(LEVEL_METRICS, True)
STAGES = (0, 50, 200, 1000, 5000)
FIGURE_SEED, TEST_SEED = 0, 1_000
FIGURE_X = 61
BATCH, STEPS, TEST_ROWS = 20, 5000, 1000


def paper_settings(method: str) -> Settings:
    """Plain SGD as in the paper, which gives no learning rate; GCM with its identity map."""
    settings: Settings = {"optimizer": "sgd", "learning_rate": 0.1, "hidden": 32}
    if METHODS[method].latent:
        settings |= {"num_particles": 8, "revenue_map": "identity"}
    return settings


def run(group: Sequence[Fit], device: str = "cpu", curves: Path | None = None) -> list[Scores]:
    """Fits that differ in their seeds: errors at the five levels.

    :param curves: folder for the curves of the figure's seed.
    """
    method, settings = group[0].method, group[0].options
    steps = settings.pop("steps", STEPS)
    seeds = [fit.seed for fit in group]
    data = [simulation.sample(BATCH * steps, seed) for seed in seeds]
    drawn: list[dict[str, object]] = []
    grid = torch.linspace(*simulation.X_RANGE, FIGURE_X)

    def watch(model: Any, step: int) -> None:
        # A model with infinite weights cannot predict; its result tells.
        if step not in (*STAGES, steps) or not is_finite(model):
            return
        for r in simulation.LEVELS:
            predicted = _predict(model, grid, r, device)
            points = {f"{a:.2f}": b for a, b in zip(grid.tolist(), predicted.tolist(), strict=True)}
            drawn.append({"method": method, "step": step, "r": r, **points})

    settings |= {"epochs": 1, "batch_size": BATCH}
    rows = (Rows(*columns, "quantile") for columns in data)
    pairs = [made(method, part, settings, seed) for part, seed in zip(rows, seeds, strict=True)]
    models, training = [model for model, _ in pairs], pairs[0][1]
    watched = models[seeds.index(FIGURE_SEED)] if curves and FIGURE_SEED in seeds else None
    if watched is not None:
        training["callback"] = partial(watch, watched)
    start = time.perf_counter()
    diverged = fit_together(models, data, seeds, device=device, **training)
    seconds = (time.perf_counter() - start) / len(group)
    if curves and watched is not None and not diverged[seeds.index(FIGURE_SEED)]:
        write_csv(pd.DataFrame(drawn), curves / f"{method}.csv")
    return [
        _scores(fit, None if failed else model, device)
        | {"seconds": seconds, "epochs": int(not failed)}
        for fit, model, failed in zip(group, models, diverged, strict=True)
    ]


def _scores(fit: Fit, model: Predictor | None, device: str) -> Scores:
    """The metrics of a fit, NaN if it diverged."""
    if model is None:
        return dict.fromkeys(LEVEL_METRICS, math.nan)
    x = simulation.covariate(TEST_ROWS, torch.Generator().manual_seed(TEST_SEED + fit.seed))
    errors = {
        r: _predict(model, x, r, device) - simulation.quantile(x, r) for r in simulation.LEVELS
    }
    return {f"MAE r={r}": float(error.abs().mean()) for r, error in errors.items()}


def _predict(model: Predictor, x: torch.Tensor, level: float, device: str) -> torch.Tensor:
    levels = torch.full((len(x), 1), level, device=device)
    return model.predict(x.unsqueeze(-1).to(device), levels).cpu()


def errors(table: pd.DataFrame) -> str:
    """Mean absolute error of every method at every level."""
    return grid(mean_intervals(samples(table, ["method", "metric"])), LEVEL_METRICS, LOWER)


def differences_to_gcm(table: pd.DataFrame) -> str:
    """Paired difference of the errors, method minus GCM; * where its interval excludes 0."""
    cells = to_reference(samples(table, ["method", "metric"]), "GCM", LOWER, 0.0)
    return grid(cells, LEVEL_METRICS, marks=stars(cells))


def report(table: pd.DataFrame) -> str:
    """The errors beside those of the paper's Table 1."""
    paper = paper_cells("quantile_mae", "method", "r", "mae", "ci95")
    theirs = {(method, f"MAE r={level}"): cell for (method, level), cell in paper.items()}
    partners = {name: method.paper for name, method in METHODS.items()}
    ours = mean_intervals(samples(table, ["method", "metric"]))
    return beside(ours, theirs, partners, LEVEL_METRICS, LOWER)


def _printed(table: pd.DataFrame) -> str:
    count = table["seed"].nunique()
    return f"Mean absolute error of the predicted quantiles, {count} seeds\n{report(table)}"


_study = partial(
    Study,
    *("quantile", str(__doc__), ["simulation"], dict.fromkeys(QUANTILE_METHODS), run, _printed),
    counted="seeds",
    quick_count=2,
    splits=named(""),
    together=but_the_seed,
    quick={"steps": 30},
)


class _Quantile(Protocols):
    def main(self, arguments: argparse.Namespace) -> None:
        """Run the fits that the table lacks, and keep the curves of the figure."""
        study = self.chosen(arguments)
        curves = arguments.output / f"{study.file or study.name}_curves"
        replace(study, run=partial(run, curves=curves)).main(arguments)


STUDY = _Quantile(
    "setting",
    {
        "tuned": _study(protocol="tuned", settings=lambda _, method: [CHOSEN["quantile"][method]]),
        "paper": _study(
            protocol="paper",
            settings=lambda _, method: [paper_settings(method)],
            file="quantile_paper_setting",
        ),
    },
)
