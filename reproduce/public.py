"""All methods on the public data sets: Table 3 of the paper, under several protocols.

"confirmation" is "held-out" on further splits, which were not looked at when choices were made;
"members" are members with their defaults on the splits of both; "published" is the training of this
library on what the paper's code reads, see `reproduce.published`; "released" is the training code
behind the paper's table, see `reproduce.released`, "changes" that with one change at a time, and
"positive" with other maps to positive weights (appendix E.1).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import log_loss, mean_squared_error
from torch import Tensor

from pyro_gcm import audit_monotonicity, data
from pyro_gcm.training import Diverged
from reproduce import published
from reproduce.arguments import Refused, positive_count
from reproduce.methods import METHODS, Predictor, least_squares, methods_of, rows_of, train
from reproduce.published import QUICK
from reproduce.released import tables as released_tables
from reproduce.released import training as released
from reproduce.released.networks import FORMS
from reproduce.rendering.tables import own_scores
from reproduce.runs import Fit, Scores, Settings, add_run_arguments, as_json, run_fits
from reproduce.scores import point_scores
from reproduce.searching.tuning import VALIDATION_LOSS, add_tune_argument, best_settings, trials
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


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One fit on a random split; NaN where it diverged."""
    dataset, learn, test, settings = rows_of_fit(fit)
    if fit.protocol == "tuning":
        learn = learn[:SEARCH_ROWS]
        size = len(learn) * 4 // 5
        learn, test = learn[:size], learn[size:]
    start = time.perf_counter()
    try:
        rows = rows_of(dataset, learn)
        model, history = train(fit.method, rows, settings, fit.seed, device=device)
    except Diverged:
        metric = VALIDATION_LOSS if fit.protocol == "tuning" else TASKS[fit.dataset].metric
        return {metric: math.nan, "seconds": time.perf_counter() - start, "epochs": 0}
    seconds = time.perf_counter() - start
    epochs = history.best_epoch if history else 0
    prediction = _predict(dataset, model, test, device)
    if fit.protocol == "tuning":
        scores = {VALIDATION_LOSS: _validation_loss(dataset, prediction, test)}
    else:
        scores = point_scores(dataset.response, prediction, dataset.y[test].numpy())
    if fit.protocol == "held-out":
        scores["violation rate"] = _violation_rate(dataset, model, test, device)
    return {**scores, "seconds": seconds, "epochs": epochs}


def _predict(dataset: data.Dataset, model: Predictor, test: Tensor, device: str) -> np.ndarray:
    x, r = dataset.x[test].to(device), dataset.r[test].to(device)
    prediction: np.ndarray = model.predict(x, r).double().cpu().numpy()
    return prediction


def _validation_loss(dataset: data.Dataset, prediction: np.ndarray, test: Tensor) -> float:
    y, binary = dataset.y[test].numpy(), dataset.response == "binary"
    return float(log_loss(y, prediction) if binary else mean_squared_error(y, prediction))


def _violation_rate(dataset: data.Dataset, model: Predictor, test: Tensor, device: str) -> float:
    if isinstance(model, torch.nn.Module):
        model.double()  # so that what is left is not rounding
    few = test[:AUDITED_ROWS]
    audit = audit_monotonicity(
        model,
        dataset.x[few].to(device),
        dataset.r[few].to(device),
        pairs=AUDITED_PAIRS,
        searches=("random",),
        progress=False,
    )
    return audit.rate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce public`."""
    parser.add_argument("--protocol", choices=list(PROTOCOLS), default="held-out")
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=None)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=None)
    parser.add_argument(
        "--seeds", type=positive_count, default=10, help="splits of a round, or seeds on one split"
    )
    add_tune_argument(parser)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the tables lack."""
    name = arguments.protocol
    protocol = PROTOCOLS[name]
    _restrict(arguments, "datasets", protocol.tasks)
    _restrict(arguments, "methods", protocol.methods)
    files: dict[Path, list[Fit]] = {}
    for fit in protocol.fits(arguments):
        file = file_of(name, fit.dataset if protocol.file_a_task else None)
        files.setdefault(arguments.output / file, []).append(fit)
    tables = [
        run_fits(path, fits, protocol.run, arguments, protocol.together)
        for path, fits in files.items()
    ]
    print(f"\nProtocol {name}\n\n{protocol.report(pd.concat(tables))}")
    print(f"\nwritten: {', '.join(map(str, files))}")


def file_of(protocol: str, task: str | None = None) -> str:
    """The file of a protocol's results, or of those of one task."""
    return f"public_{protocol}.csv" if task is None else f"public_{protocol}_{task}.csv"


def _restrict(arguments: argparse.Namespace, option: str, known: list[str]) -> None:
    """Fill in what was not given with everything that the protocol has; refuse what it lacks."""
    options = vars(arguments)
    options[option] = options[option] or known
    strange = [name for name in options[option] if name not in known]
    if strange:
        raise Refused(
            f"--{option} {' '.join(strange)}: protocol {arguments.protocol} has {', '.join(known)}"
        )


def member_fits(arguments: argparse.Namespace) -> list[Fit]:
    """Members with their defaults on the random splits of the other protocols."""
    seeds = 1 if arguments.quick else arguments.seeds
    splits = sorted({first + at for first in FIRST_SPLIT.values() for at in range(seeds)})
    return [
        Fit(
            *("public", name, "default", "held-out", str(split), split, method),
            as_json(training_settings(TASKS[name], method, arguments.quick)),
        )
        for name in arguments.datasets
        for split in splits
        for method in arguments.methods
    ]


def held_out_fits(arguments: argparse.Namespace) -> list[Fit]:
    """Every method on random splits, at the best of its six settings."""
    every = {
        (name, method): candidates(name, method, arguments.quick)
        for name in arguments.datasets
        for method in arguments.methods
    }
    best = best_settings("public", every, run, arguments)
    protocol = arguments.protocol
    first = FIRST_SPLIT[protocol]
    splits = range(first, first + (1 if arguments.quick else arguments.seeds))
    return [
        Fit(
            *("public", name, "default", protocol, str(split), split, method),
            best[name, method],
        )
        for name in arguments.datasets
        for split in splits
        for method in arguments.methods
    ]


@dataclass(frozen=True)
class _Protocol:
    """What a protocol runs, on what, and how its table is shown."""

    tasks: list[str]
    methods: list[str]
    fits: Callable[[argparse.Namespace], list[Fit]]
    run: Callable[..., Any] = run
    together: Callable[[Fit], Any] | None = None
    report: Callable[[pd.DataFrame], str] = own_scores
    file_a_task: bool = False


#: Name -> protocol.
PROTOCOLS = {
    **dict.fromkeys(FIRST_SPLIT, _Protocol(list(TASKS), methods_of("held-out"), held_out_fits)),
    "members": _Protocol(list(TASKS), methods_of("members"), member_fits),
    "published": _Protocol(PUBLISHED_TASKS, methods_of("published"), published.fits, published.run),
    "released": _Protocol(
        PUBLISHED_TASKS,
        list(FORMS),
        released.fits,
        released.run,
        released.together,
        released_tables.report,
    ),
    "changes": _Protocol(
        list(released.CHANGED),
        list(FORMS),
        released.changed,
        released.run,
        released.together,
        released_tables.report_changes,
        file_a_task=True,
    ),
    "positive": _Protocol(
        list(released.CHANGED),
        list(released.MAPPED),
        released.mapped,
        released.run,
        released.together,
        released_tables.positive_maps,
    ),
}
