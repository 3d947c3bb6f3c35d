"""Protocol "published": the paper's Table 5 and choice of the epoch, with this library's training.

Every method reads the rows as the paper's code does, in its scale and on its split, and networks
standardise nothing on top, so that networks and training alone tell it from `reproduce.released`.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace

import numpy as np

from pyro_gcm.training import Diverged
from reproduce.methods import METHODS, Predictor, Rows, check_weights, least_squares, train
from reproduce.released.rows import rows_of, unit_of_y
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
    first = slice(settings.pop("rows", None))
    label = "published" if fit.variant == "published" else "right"
    learn, test = (part.rows(first) for part in rows_of(fit.dataset, label, "released"))
    if not method.reads_x:
        learn, test = (replace(part, x=part.x[:, :0]) for part in (learn, test))
    response = "continuous" if task.lower_is_better else "binary"
    rows, unit = Rows(learn.x, learn.r, learn.y, response), unit_of_y(fit.dataset)

    def scores(model: Predictor) -> dict[str, float]:
        prediction = model.predict(test.x.to(device), test.r.to(device)).double().cpu()
        truth = test.y.double()
        return point_scores(response, (unit * prediction).numpy(), (unit * truth).numpy())

    start = time.perf_counter()
    if method.estimator:
        model, _ = train(fit.method, rows, settings, fit.seed, device=device)
        return {**scores(model), "seconds": time.perf_counter() - start, "epochs": 0}
    steps, curve = math.ceil(len(learn) / settings["batch_size"]), []

    def watch(step: int, model: Predictor) -> None:
        if step and step % steps == 0:
            check_weights(model)
            curve.append(scores(model)[task.metric])

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
