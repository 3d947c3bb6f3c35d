"""Protocol "released": the training code behind the paper's Table 3, and one change at a time.

Source: github.com/Anikethh/ResearchGym, commit d2f3995, tasks/dev/gcm. The collection has the eight
baselines as they are run, and the networks of GCM and IGCM without the calls that make them, so
that their `loss_type` and the dimension of z are not known.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from reproduce.released_baselines import CMNN, MLP, MM, PWL, SMM, SMNN, Hint, PosNN
from reproduce.released_costs import GCM, IGCM
from reproduce.released_forms import POSITIVE, Form, Part
from reproduce.released_rows import rows_of, unit_of_y
from reproduce.released_training import scores, train
from reproduce.runs import Fit, Scores, Settings, as_json
from reproduce.tasks import TASKS, paper_hyperparameters

#: Name in the tables -> network.
FORMS: dict[str, type[Form]] = {
    "PosNN": PosNN, "MM": MM, "SMM": SMM, "CMNN": CMNN, "SMNN": SMNN,
    "Hint": Hint, "PWL": PWL, "MLP": MLP, "GCM": GCM, "IGCM": IGCM,
}  # fmt: skip
_CONFIGURED = ("optimiser", "batch_size", "learning_rate", "decay", "epochs", "hidden")
#: Data set -> what its configuration says.
CONFIGURATIONS: dict[str, Settings] = {
    name: dict(zip(_CONFIGURED, row, strict=True))
    for name, row in {
        "adult": ("signs", 256, 0.001, 0.99, 41, 16),
        "compas": ("signs", 64, 0.01, 0.99, 201, 6),
        "diabetes": ("sgd", 256, 0.3, 0.97, 21, 16),
        "blog": ("signs", 256, 0.001, 0.99, 41, 16),
        "loan_psds": ("signs", 512, 0.003, 0.99, 21, 16),
        "auto_mpg": ("signs", 16, 0.01, 0.99, 121, 6),
    }.items()
}
#: Data sets on which one change at a time is made.
CHANGED = ("adult", "compas", "auto_mpg")
#: Dimension of z in the code, unless a call says otherwise.
Z_DIM = 4
#: One change from the released protocol to an ordinary one, by name; the last makes all of them.
CHANGES: dict[str, Settings] = {
    "Adam that keeps its moments": {"optimiser": "adam"},
    "start by fan-in": {"start": "fan-in"},
    "standardised inputs": {"scaling": "standard"},
    "epoch chosen on validation rows": {"selection": "validation"},
    "Adult's right label": {"label": "right"},
    "Hint with each row's own sign": {"own_sign": True},
    "width 32": {"hidden": 32},
    "weights that learn": {"weights_learn": True},
}
CHANGES["all of them"] = {key: v for change in CHANGES.values() for key, v in change.items()}
#: Which data sets or methods a change is about, where not all.
_ABOUT = {
    "Adult's right label": ("adult",),
    "Hint with each row's own sign": ("Hint",),
    "weights that learn": ("GCM", "IGCM"),
}
#: Methods whose weights a map makes positive.
MAPPED = ("PosNN", "MM", "SMM", "CMNN", "SMNN", "GCM", "IGCM")
#: What is not in the name of a network's settings.
_OF_NETWORKS = ("z_dim", "draws", "loss_type", "own_sign", "weights_learn", "positive")
QUICK: Settings = {"epochs": 2, "rows": 100}
#: Share of the training rows on which the epoch is chosen where it is not on the test rows.
VALIDATION = 0.1


def settings_of(name: str, method: str) -> list[Settings]:
    """The settings of a method on a data set: several of GCM and IGCM, the code's own first."""
    base = {**CONFIGURATIONS[name], "start": "released"}
    if method not in ("GCM", "IGCM"):
        return [base]
    sizes = dict.fromkeys((Z_DIM, paper_hyperparameters(name)["z_dim"]))
    types = (0, 1) if TASKS[name].metric != "RMSE" else (2,)
    return [{**base, "loss_type": kind, "z_dim": size} for kind in types for size in sizes]


def fits(arguments: argparse.Namespace) -> list[Fit]:
    """Every method, setting and seed."""
    quick = QUICK if arguments.quick else {}
    seeds = range(2 if arguments.quick else arguments.seeds)
    return [
        _fit(name, seed, method, {**settings, **quick})
        for name in arguments.datasets
        for method in arguments.methods
        for settings in settings_of(name, method)
        for seed in seeds
    ]


def changed(arguments: argparse.Namespace) -> list[Fit]:
    """Every method with each of the changes."""
    quick = QUICK if arguments.quick else {}
    seeds = range(2 if arguments.quick else arguments.seeds)
    return [
        _fit(name, seed, method, {**settings_of(name, method)[0], **change, **quick})
        for name in arguments.datasets
        for method in arguments.methods
        for change in ({}, *changes_of(name, method).values())
        for seed in seeds
    ]


def mapped(arguments: argparse.Namespace) -> list[Fit]:
    """Every method with each map to positive weights but the paper's own, which "released" has."""
    quick = QUICK if arguments.quick else {}
    seeds = range(2 if arguments.quick else arguments.seeds)
    return [
        _fit(name, seed, method, {**settings_of(name, method)[0], "positive": by, **quick})
        for name in arguments.datasets
        for method in arguments.methods
        if method in MAPPED
        for by in [*POSITIVE][1:]
        for seed in seeds
    ]


def changes_of(name: str, method: str) -> dict[str, Settings]:
    """The changes that are about a method on a data set."""
    kept = {
        change: settings
        for change, settings in CHANGES.items()
        if {name, method} & set(_ABOUT.get(change, (name,)))
    }
    own = {key: v for settings in list(kept.values())[:-1] for key, v in settings.items()}
    return {**kept, "all of them": own}


def _fit(name: str, seed: int, method: str, settings: Settings) -> Fit:
    return Fit("public", name, "published", "released", "fixed", seed, method, as_json(settings))


def together(fit: Fit) -> Fit:
    """What fits of all seeds have in common: they are trained side by side."""
    return replace(fit, seed=0)


def run(group: Sequence[Fit], device: str = "cpu") -> list[Scores]:
    """Scores of fits that differ in their seeds, at the epoch that is best on the test rows.

    With selection "validation" it is the best on rows of the training part.
    """
    fit, seeds = group[0], [each.seed for each in group]
    settings = {"scaling": "released", "selection": "test", "label": "published", **fit.options}
    task = TASKS[fit.dataset]
    binary = task.metric != "RMSE"
    learn, test = rows_of(fit.dataset, settings["label"], settings["scaling"])
    if "rows" in settings:
        learn, test = (part.rows(slice(settings["rows"])) for part in (learn, test))
    learn, chosen_on = _parts(learn, test, settings["selection"])
    both = [(part.x, part.r, part.y) for part in (chosen_on, test)]
    shown = Part(*map(torch.cat, zip(*both, strict=True)))
    options = {name: settings[name] for name in _OF_NETWORKS if name in settings}
    form = FORMS[fit.method](
        learn.x.shape[1], learn.r.shape[1], settings["hidden"], binary, options
    )
    start = time.perf_counter()
    history = []
    for prediction in train(form, learn, shown, seeds, settings):
        parts = prediction.split([len(chosen_on), len(test)], 1)
        history.append(
            [scores(p, y, binary) for p, y in zip(parts, (chosen_on.y, test.y), strict=True)]
        )
    seconds = (time.perf_counter() - start) / len(group)
    unit = unit_of_y(fit.dataset)
    results = []
    for place in range(len(group)):
        curve = [epoch[0][place][task.metric] for epoch in history]
        best = int((np.argmin if task.lower_is_better else np.argmax)(curve))
        found = {name: unit * value for name, value in history[best][1][place].items()}
        last = unit * history[-1][1][place][task.metric]
        extra = {f"{task.metric}, last epoch": last, "seconds": seconds, "epochs": best + 1}
        results.append({**found, **extra})
    return results


def _parts(learn: Part, test: Part, selection: str) -> tuple[Part, Part]:
    """Rows to train on, and rows on which the epoch is chosen."""
    if selection == "test":
        return learn, test
    order = torch.randperm(len(learn), generator=torch.Generator().manual_seed(0))
    size = int(VALIDATION * len(learn))
    return learn.rows(order[size:]), learn.rows(order[:size])
