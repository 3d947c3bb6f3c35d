"""Protocol "published": the paper's Table 5 and choice of the epoch, with this library's training.

Every method reads the rows as the paper's code does, in its scale and on its split, and networks
standardise nothing on top, so that networks and training alone tell it from `reproduce.released`.
"""

from __future__ import annotations

import math

import numpy as np

from reproduce.methods import METHODS, Predictor, check_weights, least_squares, train
from reproduce.released.rows import rows_of, unit_of_y
from reproduce.runs import Fit, Scores, Settings, nan_if_diverged
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


@nan_if_diverged(lambda fit: [TASKS[fit.dataset].metric])
def run(fit: Fit, device: str = "cpu") -> Scores:
    """The metric at the epoch that is best on the test rows and at the last."""
    task, settings = TASKS[fit.dataset], fit.options
    first = slice(settings.pop("rows", None))
    learn, test = (part.rows(first) for part in rows_of(fit.dataset, "published", "released"))
    unit = unit_of_y(fit.dataset)

    def scores(model: Predictor) -> dict[str, float]:
        prediction = model.predict(test.x.to(device), test.r.to(device)).double().cpu()
        truth = test.y.double()
        return point_scores(learn.response, (unit * prediction).numpy(), (unit * truth).numpy())

    steps, curve = math.ceil(len(learn) / settings["batch_size"]), []

    def watch(step: int, model: Predictor) -> None:
        if step and step % steps == 0:
            check_weights(model)
            curve.append(scores(model)[task.metric])

    train(fit.method, learn, settings, fit.seed, device=device, watch=watch)
    best = (np.argmin if task.lower_is_better else np.argmax)(curve)
    return {
        task.metric: curve[best],
        f"{task.metric}, last epoch": curve[-1],
        "epochs": int(best) + 1,
    }
