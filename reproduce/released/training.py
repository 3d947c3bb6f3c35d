"""What is trained under the protocol "released" and its changes, how, and the choice of the epoch.

An ordinary training by `fit_together` but for what the released code calls Adam: it is made
anew in every step, so that a step has the sign of the clipped gradient.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from pyro_gcm.training import Diverged
from reproduce.methods import Rows
from reproduce.methods.together import fit_together
from reproduce.released.networks import POSITIVE, Released, made
from reproduce.released.rows import rows_of, unit_of_y
from reproduce.runs import Fit, Scores, Settings, read_json
from reproduce.tasks import TASKS, paper_hyperparameters

#: Data set -> what its configuration says; name -> change from the released protocol to an ordinary
#: one; and the data sets or methods that a change is about, where not all.
CONFIGURATIONS, CHANGES, _ABOUT = read_json(__file__, "training.json").values()
#: Data sets on which one change at a time is made.
CHANGED = ("adult", "compas", "auto_mpg")
#: Dimension of z in the code, unless a call says otherwise.
Z_DIM = 4
CHANGES["all of them"] = {key: v for change in CHANGES.values() for key, v in change.items()}
#: Methods whose weights a map makes positive.
MAPPED = ("PosNN", "MM", "SMM", "CMNN", "SMNN", "GCM", "IGCM")
#: Settings that networks are made with.
_OF_NETWORKS = (
    *("hidden", "start", "z_dim", "draws", "loss_type"),
    *("own_sign", "weights_learn", "positive"),
)
QUICK: Settings = {"epochs": 2, "rows": 100}
#: Share of the training rows on which the epoch is chosen where it is not on the test rows.
VALIDATION = 0.1
#: Of the gradient, elementwise; weight of the sum of squares of all parameters.
CLIP, L2 = 1.0, 1e-6
#: 1e-7 / sqrt(1 - 0.999), which the first step of an Adam adds to the absolute gradient.
SIGN_EPSILON = 1e-7 / math.sqrt(1e-3)
#: Name in the settings -> optimiser. "signs" is what a new Adam does in its first step, the sign of
#: the gradient; "adam" keeps its moments.
OPTIMISERS: dict[str, Callable[..., Optimizer]] = {
    "signs": partial(torch.optim.Adam, betas=(0.0, 0.0), eps=SIGN_EPSILON),
    "adam": partial(torch.optim.Adam, eps=1e-7),
    "sgd": torch.optim.SGD,
}
#: Rows of a block of predictions.
_BLOCK = 1024


def settings_of(name: str, method: str) -> list[Settings]:
    """The settings of a method on a data set: several of GCM and IGCM, the code's own first."""
    base = {**CONFIGURATIONS[name], "start": "released"}
    if method not in ("GCM", "IGCM"):
        return [base]
    sizes = dict.fromkeys((Z_DIM, paper_hyperparameters(name)["z_dim"]))
    types = (0, 1) if TASKS[name].metric != "RMSE" else (2,)
    return [{**base, "loss_type": kind, "z_dim": size} for kind in types for size in sizes]


def changes_of(name: str, method: str) -> dict[str, Settings]:
    """The changes that are about a method on a data set."""
    kept = {
        change: settings
        for change, settings in CHANGES.items()
        if {name, method} & set(_ABOUT.get(change, (name,)))
    }
    own = {key: v for settings in list(kept.values())[:-1] for key, v in settings.items()}
    return {**kept, "all of them": own}


def changed(name: str, method: str) -> list[Settings]:
    """The settings of a method as released, and with each of the changes."""
    first = settings_of(name, method)[0]
    return [first, *({**first, **change} for change in changes_of(name, method).values())]


def mapped(name: str, method: str) -> list[Settings]:
    """Those with each map to positive weights but the paper's own, which "released" has."""
    return [{**settings_of(name, method)[0], "positive": by} for by in [*POSITIVE][1:]]


def run(group: Sequence[Fit], device: str = "cpu") -> list[Scores]:
    """Scores of fits that differ in their seeds, at the epoch that is best on the test rows.

    With selection "validation" it is the best on rows of the training part.

    :raises Diverged: if a fit diverges.
    """
    fit = group[0]
    settings = {"scaling": "released", "selection": "test", "label": "published", **fit.options}
    task = TASKS[fit.dataset]
    parts = rows_of(fit.dataset, settings["label"], settings["scaling"])
    learn, test = (part.rows(slice(settings.get("rows"))) for part in parts)
    shown = [test]
    if settings["selection"] == "validation":
        order = torch.randperm(len(learn), generator=torch.Generator().manual_seed(0))
        held_out, rest = order.tensor_split([int(VALIDATION * len(learn))])
        shown, learn = [learn.rows(held_out), test], learn.rows(rest)
    options = {name: settings[name] for name in _OF_NETWORKS if name in settings}
    options["response"] = learn.response
    sizes, seeds = (learn.x.shape[1], learn.r.shape[1]), [each.seed for each in group]
    models = [made(fit.method, *sizes, seed=seed, **options) for seed in seeds]
    steps = math.ceil(len(learn) / settings["batch_size"])
    start = time.perf_counter()
    curves = fit_together(
        *(models, [(learn.x, learn.r, learn.y)] * len(models), seeds),
        standardize=False,
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        optimizer=partial(_optimiser, settings["optimiser"]),
        # The rate falls before every epoch, the first one included.
        schedule=lambda made, _: LambdaLR(made, lambda at: settings["decay"] ** (1 + at // steps)),
        clip_norm=None,
        device=device,
        judge=lambda model: [_scores(model, part) for part in shown],
    )
    seconds = (time.perf_counter() - start) / len(group)
    unit, results = unit_of_y(fit.dataset), []
    for curve in curves:
        if isinstance(curve, Diverged):
            raise curve
        chosen_on = [epoch[0][task.metric] for epoch in curve]
        best = int((np.argmin if task.lower_is_better else np.argmax)(chosen_on))
        found = {name: unit * value for name, value in curve[best][-1].items()}
        last = unit * curve[-1][-1][task.metric]
        extra = {f"{task.metric}, last epoch": last, "seconds": seconds, "epochs": best + 1}
        results.append({**found, **extra})
    return results


def _optimiser(kind: str, parameters: Any, lr: float) -> Optimizer:
    """One whose gradient has a part of the L2 penalty and, unless it is "sgd", is clipped."""

    def prepare(optimiser: Optimizer, *_: Any) -> None:
        for theta in optimiser.param_groups[0]["params"]:
            theta.grad.add_(theta, alpha=2.0 * L2)
            if kind != "sgd":
                theta.grad.clamp_(-CLIP, CLIP)

    optimiser: Optimizer = OPTIMISERS[kind](parameters, lr=lr)
    optimiser.register_step_pre_hook(prepare)
    return optimiser


@torch.no_grad()
def _scores(model: Released, part: Rows) -> dict[str, float]:
    """AUC and accuracy, or RMSE, of a network on some rows."""
    device = model.x_units.loc.device
    blocks = zip(part.x.split(_BLOCK), part.r.split(_BLOCK), strict=True)
    parts = [model.response_of(x.to(device), r.to(device)).cpu() for x, r in blocks]
    found, truth = torch.cat(parts).double().numpy(), part.y.double().numpy()
    if model.response == "continuous":
        return {"RMSE": float(np.sqrt(np.square(found - truth).mean()))}
    return {
        "AUC": float(roc_auc_score(truth, found)),
        "accuracy": float(((found >= 0.5) == truth).mean()),
    }
