"""All methods on the public data sets: Table 3 of the paper, under several protocols.

"confirmation" is "held-out" on further splits, which were not looked at when choices were made;
"members" are members with their defaults on the splits of both; "published" is the training of this
library on what the paper's code reads, see `reproduce.published`; "released" is the training code
behind the paper's table, see `reproduce.released`, "changes" that with one change at a time, and
"positive" with other maps to positive weights (appendix E.1).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from sklearn.metrics import log_loss, mean_squared_error

from pyro_gcm import audit_monotonicity
from reproduce import published
from reproduce.methods import METHODS, least_squares, methods_of, rows_of, train
from reproduce.published import QUICK
from reproduce.released import training as released
from reproduce.released.networks import FORMS
from reproduce.runs import Fit, Scores, Settings, as_json, nan_if_diverged
from reproduce.scores import point_scores
from reproduce.searching.tuning import VALIDATION_LOSS, add_tune_argument, best_settings, trials
from reproduce.study import Protocols, Study, named
from reproduce.tasks import PUBLISHED_TASKS, TASKS, Task, rows_of_fit

#: First split of each protocol with random splits.
FIRST_SPLIT = {"held-out": 0, "confirmation": 10}
#: Rows of the training part that the search uses at most.
SEARCH_ROWS = 20_000
#: Size of the search for violations in every held-out fit.
AUDITED_ROWS, AUDITED_PAIRS = 500, 2_000


def candidates(name: str, method: str, quick: bool) -> list[str]:
    """The six candidates of a method on a task, as JSON; one if quick."""
    base = training_settings(TASKS[name], method, quick)
    made = [as_json({**base, **trial}) for trial in trials(method)]
    return made[:1] if quick else made


def training_settings(task: Task, method: str, quick: bool) -> Settings:
    """The settings that every trial of a method shares; an estimator has none."""
    if METHODS[method].estimator:
        return {"rows": QUICK["rows"]} if quick else {}
    base: Settings = {
        "epochs": task.epochs,
        "batch_size": task.batch_size,
        "optimizer": "adam",
        "schedule": "cosine",
        "validation": 0.1,
    }
    if METHODS[method].latent:
        base |= {"num_particles": 16, **least_squares(task.metric, method)}
    return {**base, **QUICK} if quick else base


def _metrics(fit: Fit) -> list[str]:
    return [VALIDATION_LOSS if fit.protocol == "tuning" else TASKS[fit.dataset].metric]


@nan_if_diverged(_metrics)
def run(fit: Fit, device: str = "cpu") -> Scores:
    """One fit on a random split."""
    dataset, learn, test, settings = rows_of_fit(fit)
    if fit.protocol == "tuning":
        learn = learn[:SEARCH_ROWS]
        size = len(learn) * 4 // 5
        learn, test = learn[:size], learn[size:]
    start, rows = time.perf_counter(), rows_of(dataset, learn)
    model, history = train(fit.method, rows, settings, fit.seed, device=device)
    seconds = time.perf_counter() - start
    epochs = history.best_epoch if history else 0
    x, r, y = dataset.x[test].to(device), dataset.r[test].to(device), dataset.y[test].numpy()
    prediction = model.predict(x, r).double().cpu().numpy()
    if fit.protocol == "tuning":
        loss = log_loss if dataset.response == "binary" else mean_squared_error
        scores = {VALIDATION_LOSS: float(loss(y, prediction))}
    else:
        scores = point_scores(dataset.response, prediction, y)
    if fit.protocol == "held-out":
        if isinstance(model, torch.nn.Module):
            model.double()  # so that what is left is not rounding
        few = x[:AUDITED_ROWS], r[:AUDITED_ROWS]
        more: Any = {"searches": ("random",), "progress": False}
        audit = audit_monotonicity(model, *few, pairs=AUDITED_PAIRS, **more)
        scores["violation rate"] = audit.rate
    return {**scores, "seconds": seconds, "epochs": epochs}


def _from(first: int, count: int) -> list[tuple[str, int]]:
    return [(str(split), split) for split in range(first, first + count)]


def _with_settings(study: Study, arguments: argparse.Namespace) -> Study:
    """The study with the best of the six settings of every method, where it chooses among them."""
    if study.protocol not in FIRST_SPLIT or study is PROTOCOLS["members"]:
        return study
    every = {
        (name, method): candidates(name, method, arguments.quick)
        for name in arguments.datasets
        for method in arguments.methods
    }
    best = best_settings("public", every, run, arguments)
    return replace(study, settings=lambda *key: [json.loads(best[key])])


_study = partial(Study, "public", str(__doc__), counted="seeds")
_held_out = partial(_study, TASKS, dict.fromkeys(methods_of("held-out")), run, "4")
_released = partial(
    _study,
    run=released.run,
    page="3",
    quick_count=2,
    variant="published",
    protocol="released",
    splits=named("fixed"),
    quick=released.QUICK,
    together=released.together,
)
#: Name -> protocol.
PROTOCOLS = {
    **{
        name: _held_out(protocol=name, splits=partial(_from, first), file=f"public_{name}")
        for name, first in FIRST_SPLIT.items()
    },
    "members": _study(
        *(TASKS, dict.fromkeys(methods_of("members")), run, "4"),
        splits=lambda count: [
            pair for first in FIRST_SPLIT.values() for pair in _from(first, count)
        ],
        quick={"rows": QUICK["rows"]},
        file="public_members",
    ),
    "published": _study(
        *(PUBLISHED_TASKS, dict.fromkeys(methods_of("published")), published.run),
        "3",
        variant="published",
        protocol="published",
        splits=named("fixed"),
        settings=published.settings_of,
        quick=QUICK,
        file="public_published",
    ),
    "released": _released(
        *(PUBLISHED_TASKS, FORMS), settings=released.settings_of, file="public_released"
    ),
    "changes": _released(
        *(released.CHANGED, FORMS), settings=released.changed, file="public_changes_{dataset}"
    ),
    "positive": _released(
        *(released.CHANGED, dict.fromkeys(released.MAPPED)),
        settings=released.mapped,
        file="public_positive",
    ),
}


STUDY = Protocols("protocol", PROTOCOLS, _with_settings, add_tune_argument)
