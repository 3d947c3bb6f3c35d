"""Protocol "published": the paper's Table 5 and choice of the epoch, with this library's training.

Every method reads the rows as the paper's code does, in its scale and on its split, with nothing
standardised on top, so that networks and training alone tell it from `reproduce.released`.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm.training import Diverged
from reproduce.methods import METHODS, Predictor, Rows, check_weights, least_squares, train
from reproduce.released_forms import Part
from reproduce.released_rows import rows_of, unit_of_y
from reproduce.runs import Fit, Scores, Settings, as_json
from reproduce.scores import point_scores
from reproduce.tasks import TASKS, paper_hyperparameters

#: What --quick makes of every fit.
QUICK: Settings = {"epochs": 1, "rows": 200}


def settings_of(name: str, method: str, quick: bool = False) -> Settings:
    """The hyperparameters of the paper's Table 5 for a method; an estimator has none."""
    if METHODS[method].estimator:
        return {"rows": QUICK["rows"]} if quick else {}
    settings = {**paper_hyperparameters(name), "standardize": False}
    if METHODS[method].latent:
        settings["num_samples"] = settings["num_particles"]  # the paper predicts with them, too
        settings |= least_squares(TASKS[name].metric, method)
    else:
        del settings["num_particles"], settings["z_dim"]
    return {**settings, **QUICK} if quick else settings


def fits(arguments: argparse.Namespace) -> list[Fit]:
    """Every method and seed on the one split of a data set."""
    quick = arguments.quick
    return [
        fit_of("public", name, "published", seed, method, settings_of(name, method, quick))
        for name in arguments.datasets
        for seed in range(1 if quick else arguments.seeds)
        for method in arguments.methods
    ]


def fit_of(
    experiment: str, name: str, variant: str, seed: int, method: str, settings: Settings
) -> Fit:
    """One fit; variant "default" has the right label of Adult."""
    return Fit(experiment, name, variant, "published", "fixed", seed, method, as_json(settings))


def run(fit: Fit, device: str = "cpu") -> Scores:
    """The metric at the epoch where it is best on the test rows, and at the last one.

    An estimator, which has no epochs, has all scores. NaN where a fit diverged.
    """
    task, method, settings = TASKS[fit.dataset], METHODS[fit.method], fit.options
    limit = settings.pop("rows", None)
    label = "published" if fit.variant == "published" else "right"
    learn, test = (
        _read(part, method.reads_x, limit) for part in rows_of(fit.dataset, label, "released")
    )
    unit, response = unit_of_y(fit.dataset), "continuous" if task.lower_is_better else "binary"
    rows, truth = Rows(learn.x, learn.r, learn.y, response), unit * test.y.double().numpy()
    start = time.perf_counter()
    if method.estimator:
        model, _ = train(fit.method, rows, settings, fit.seed, device=device)
        found = point_scores(response, unit * _predict(model, test, device), truth)
        return {**found, "seconds": time.perf_counter() - start, "epochs": 0}
    steps, curve = math.ceil(len(learn) / settings["batch_size"]), []

    def watch(step: int, model: Predictor) -> None:
        if step and step % steps == 0:
            check_weights(model)
            prediction = unit * _predict(model, test, device)
            curve.append(point_scores(response, prediction, truth)[task.metric])

    try:
        train(fit.method, rows, settings, fit.seed, device=device, watch=watch)
    except Diverged:
        return {task.metric: math.nan, "seconds": time.perf_counter() - start, "epochs": 0}
    best = (np.argmin if task.lower_is_better else np.argmax)(curve)
    return {
        task.metric: curve[best],
        f"{task.metric}, last epoch": curve[-1],
        "seconds": time.perf_counter() - start,
        "epochs": int(best) + 1,
    }


def _read(part: Part, reads_x: bool, limit: int | None) -> Part:
    """The first rows of a part, without x where a method does not read it."""
    x = part.x if reads_x else part.x[:, :0]
    return Part(x[:limit], part.r[:limit], part.y[:limit])


def _predict(model: Predictor, rows: Part, device: str) -> npt.NDArray[np.float64]:
    prediction: torch.Tensor = model.predict(rows.x.to(device), rows.r.to(device))
    return prediction.double().cpu().numpy()
