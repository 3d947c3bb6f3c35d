"""Protocol "published": the paper's Table 5 and choice of the epoch, with this library's training.

Every method reads the rows as the paper's code does, in its scale and on its split, and networks
standardise nothing on top, so that networks and training alone tell it from `reproduce.released`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyro_gcm.training import Diverged
from reproduce.methods import METHODS, least_squares, made
from reproduce.methods.together import fit_together
from reproduce.released.rows import rows_of, unit_of_y
from reproduce.runs import Fit, Scores, Settings
from reproduce.scores import point_scores
from reproduce.tasks import TASKS, paper_hyperparameters

#: What --quick makes of every fit.
QUICK: Settings = {"epochs": 1, "rows": 200}


def settings_of(name: str, method: str) -> list[Settings]:
    """The hyperparameters of the paper's Table 5 for a method."""
    settings = {**paper_hyperparameters(name), "standardize": False}
    if METHODS[method].latent:
        settings["num_samples"] = settings["num_particles"]  # the paper predicts with them, too
        settings |= least_squares(TASKS[name].metric, method)
    else:
        del settings["num_particles"], settings["z_dim"]
    return [settings]


def run(group: Sequence[Fit], device: str = "cpu") -> list[Scores]:
    """The metric of fits that differ in their seeds: at the best epoch on the test rows, the last.

    It is NaN where a fit diverged.
    """
    fit, seeds = group[0], [each.seed for each in group]
    task, settings = TASKS[fit.dataset], fit.options
    first = slice(settings.pop("rows", None))
    learn, test = (part.rows(first) for part in rows_of(fit.dataset, "published", "released"))
    unit, truth = unit_of_y(fit.dataset), test.y.double()
    pairs = (made(fit.method, learn, settings, seed) for seed in seeds)
    models, (training, *_) = zip(*pairs, strict=True)

    def metric_of(model: Any) -> float:
        prediction = model.predict(test.x.to(device), test.r.to(device)).double().cpu()
        values = (unit * prediction).numpy(), (unit * truth).numpy()
        return point_scores(learn.response, *values)[task.metric]

    columns = [(learn.x, learn.r, learn.y)] * len(models)
    training |= {"device": device, "judge": metric_of}

    def scores_of(curve: list[float] | Diverged) -> Scores:
        if isinstance(curve, Diverged):
            return {task.metric: math.nan}
        best = int((np.argmin if task.lower_is_better else np.argmax)(curve))
        last = {f"{task.metric}, last epoch": curve[-1], "epochs": best + 1}
        return {task.metric: curve[best], **last}

    return [*map(scores_of, fit_together(models, columns, seeds, **training))]
