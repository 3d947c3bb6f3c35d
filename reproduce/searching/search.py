"""Every method at its best of the same number of trials, on rows that chose nothing.

Adult, Diabetes, Blog and the loan stand-in: 30 % of the rows, at most 20,000, are set aside once.
The trials are run on them, and the final fits on ten random 4:1 splits of the other rows. COMPAS
and Auto MPG: the trials are run anew inside the training part of each of twenty splits.

A trial trains on three fifths of its rows, stops early on the fourth and is judged on the last, by
log loss or RMSE; where the plan says so, on five rotations of the fifths. A final fit stops early
on a fifth of its training rows, since it may have many more of them than a trial, and trains on all
of them again with the number of rounds found (the mean over rotations). The spread of a continuous
y around a mean is that of the errors on the rows that stopped it. Times are CPU times of a thread.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import log_loss, root_mean_squared_error
from threadpoolctl import threadpool_limits
from torch import Tensor

from pyro_gcm import data
from reproduce import tasks
from reproduce.benchmarks import paired
from reproduce.methods import METHODS, Predictor, Rows, rows_of, version_of
from reproduce.methods.spaces import SEARCHED
from reproduce.runs import (
    Fit,
    Refused,
    Scores,
    Settings,
    add_run_arguments,
    as_json,
    nan_if_diverged,
    read_results,
    run_fits,
)
from reproduce.scores import distribution_scores
from reproduce.study import print_tables


@dataclass(frozen=True)
class Plan:
    """How the settings of a data set are chosen and tested.

    :param nested: choose inside the training part of every split, not once on rows set aside.
    :param splits: final fits of a method.
    :param trials: of a search.
    :param folds: rotations of the fifths of a trial and of a final fit's early stopping.
    """

    nested: bool = False
    splits: int = 10
    trials: int = 30
    folds: int = 1


#: In the order of the run. A fifth of Auto MPG's training rows are 62 cars.
PLANS = {
    "adult": Plan(),
    "compas": Plan(nested=True, splits=20, trials=12),
    "auto_mpg": Plan(nested=True, splits=20, trials=12, folds=5),
    "loan_psds": Plan(),
    "diabetes": Plan(),
    "blog": Plan(),
}
#: Part of the rows that is set aside, and its most rows.
ASIDE, MOST_ASIDE = 0.3, 20_000
#: Name, in place of a split, of the search on the rows set aside; the seed that draws them.
ASIDE_SPLIT, ASIDE_SEED = "aside", 1_000
#: First seed of the splits: no other experiment has looked at these.
FIRST_SPLIT = 100
#: What --quick makes of the sizes.
QUICK_ROWS, QUICK_TRIALS = 200, 2
#: The score that a trial is judged by, on rows that it did not see: lower is better.
VALIDATION_LOSS = "validation loss"
#: Trials before TPE's model is used: the default, and random ones.
STARTUP = 8
#: Settings and losses of the finished trials of one search; a loss is NaN if they diverged.
Finished = list[tuple[Settings, float]]
#: Rows of a prediction that is timed, and the times it is repeated.
TIMED_ROWS, REPEATS = 1_000, 5


def searched_rows(dataset: data.Dataset, plan: Plan, split: str) -> Tensor:
    """The rows that a search may look at."""
    return dataset.split(int(split))[0] if plan.nested else _aside(len(dataset))[0]


def tested_rows(dataset: data.Dataset, plan: Plan, split: str) -> tuple[Tensor, Tensor]:
    """Training and test rows of a final fit."""
    if plan.nested:
        return dataset.split(int(split))
    rest = _aside(len(dataset))[1]
    order = rest[torch.randperm(len(rest), generator=torch.Generator().manual_seed(int(split)))]
    size = len(rest) * 4 // 5
    return order[:size], order[size:]


def _aside(count: int) -> tuple[Tensor, Tensor]:
    """The rows set aside, and the others."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(ASIDE_SEED))
    size = min(int(ASIDE * count), MOST_ASIDE)
    return order[:size], order[size:]


def _metrics(fit: Fit) -> list[str]:
    if fit.protocol == "trials":
        return [VALIDATION_LOSS]
    response = tasks.load(fit.dataset, fit.variant).response
    return ["AUC" if response == "binary" else "RMSE", "log score"]


@nan_if_diverged(_metrics)
def run(fit: Fit, device: str = "cpu") -> Scores:
    """One trial or one final fit."""
    dataset, start = tasks.load(fit.dataset, fit.variant), time.process_time()
    with threadpool_limits(1):
        scores = (_trial if fit.protocol == "trials" else _final)(fit, dataset)
    return {"seconds": time.process_time() - start, **scores}


def _stopped(
    fit: Fit, dataset: data.Dataset, rows: Tensor, grow: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Fits on so many fifths that stop early on the next one.

    :param rows: in random order; their last fifth is another one in each rotation.
    :returns: outcomes and predictions of the last fifths, and the mean number of rounds.
    """
    outcomes, predicted, rounds = [], [], []
    for fold in range(fit.options["folds"]):
        parts = [*rows.tensor_split(5)]
        parts = parts[fold:] + parts[:fold]
        model, found = _fit(fit, dataset, torch.cat(parts[:grow]), rows_of(dataset, parts[grow]))
        last = parts[-1]
        outcomes.append(dataset.y[last].numpy())
        predicted.append(model.predict(dataset.x[last], dataset.r[last]).double().numpy())
        rounds.append(found)
    return np.concatenate(outcomes), np.concatenate(predicted), float(np.mean(rounds))


def _trial(fit: Fit, dataset: data.Dataset) -> Scores:
    """The loss on fifths that neither trained the model nor stopped it."""
    rows = searched_rows(dataset, PLANS[fit.dataset], fit.split)[: fit.options.get("rows")]
    y, prediction, rounds = _stopped(fit, dataset, rows, 3)
    loss = log_loss if dataset.response == "binary" else root_mean_squared_error
    return {VALIDATION_LOSS: float(loss(y, prediction)), "epochs": rounds}


def _final(fit: Fit, dataset: data.Dataset) -> Scores:
    """Scores on the test rows of a fit to all training rows, and the times it took."""
    rows, start = tested_rows(dataset, PLANS[fit.dataset], fit.split), time.process_time()
    learn, test = (part[: fit.options.get("rows")] for part in rows)
    y, prediction, found = _stopped(fit, dataset, learn, 4)
    stopped, rounds = time.process_time(), round(found)
    model, _ = _fit(fit, dataset, learn, rounds)
    end = time.process_time()
    spread = None
    if dataset.response == "continuous" and not METHODS[fit.method].density:
        spread = root_mean_squared_error(y, prediction)
    return {
        **distribution_scores(dataset, model, test, spread=spread),
        "stopping seconds": stopped - start,
        "fit seconds": end - stopped,
        "predict milliseconds": _milliseconds(model, dataset, test),
        "seconds": end - start,
        "epochs": rounds,
    }


def _fit(
    fit: Fit, dataset: data.Dataset, index: Tensor, until: Rows | int
) -> tuple[Predictor, int]:
    settings = {key: v for key, v in fit.options.items() if key not in ("folds", "rows")}
    return SEARCHED[fit.method].fit(rows_of(dataset, index), until, settings, fit.seed)


def _milliseconds(model: Predictor, dataset: data.Dataset, test: Tensor) -> float:
    """Median CPU time of a prediction of a thousand rows, after a first one."""
    index = test[torch.arange(TIMED_ROWS) % len(test)]
    call = partial(model.predict, dataset.x[index], dataset.r[index])
    return 1_000 * float(np.median(paired({"": call}, REPEATS)[""]))


def search(name: str, splits: range, arguments: argparse.Namespace) -> list[Fit]:
    """Run the trials on a data set, and return the final fits with the best settings of a method.

    All searches have their first trial, then their second: those of a round run in parallel. Where
    rows are set aside, all splits have the same settings.
    """
    plan, path = PLANS[name], arguments.output / f"search_trials_{name}.csv"
    dataset = tasks.load(name, "default")
    shared = {"folds": plan.folds, **({"rows": QUICK_ROWS} if arguments.quick else {})}
    searches = [str(split) for split in splits] if plan.nested else [ASIDE_SPLIT]
    every = [(m, s) for s in searches for m in arguments.methods if SEARCHED[m].settings]
    stored = _stored(path, shared)
    for number in range(QUICK_TRIALS if arguments.quick else plan.trials):
        missing = []
        for method, split in every:
            finished = stored.get((method, split), [])
            if len(finished) <= number:
                rows = searched_rows(dataset, plan, split)[: shared.get("rows")]
                space = partial(SEARCHED[method].space, rows=len(rows) * 3 // 5)
                told = f"{name}/{method}/{split}", space, SEARCHED[method].default, finished
                settings = as_json({**proposed(*told), **shared})
                known = "search", name, "default", "trials", split, number, method
                missing.append(Fit(*known, settings))
        if missing:
            run_fits(path, missing, run, arguments)
            stored = _stored(path, shared)
    trials = number + 1
    best = {key: best_of(f"{name}/{'/'.join(key)}", stored[key][:trials]) for key in every}
    fits = []
    for seed, method in product(splits, arguments.methods):
        own = best.get((method, str(seed) if plan.nested else ASIDE_SPLIT), {})
        of = name, "default", "held-out", str(seed), seed, method
        fits.append(Fit("search", *of, as_json({**own, **shared})))
    return fits


def _stored(path: Path, shared: Settings) -> dict[tuple[str, str], Finished]:
    """(method, split) -> the finished trials in their order."""
    trials: dict[tuple[str, str], Finished] = {}
    for row in read_results(path).sort_values("seed", kind="stable").to_dict("records"):
        settings = json.loads(row["settings"])
        if {key: settings.pop(key) for key in ("folds", "rows") if key in settings} == shared:
            key = row["method"], row["split"]
            trials.setdefault(key, []).append((settings, float(row["value"])))
    return trials


def proposed(
    name: str, space: Callable[[Any], Settings], default: Settings, finished: Finished
) -> Settings:
    """The settings of the next trial of a search, by Optuna's TPE.

    The sampler is seeded anew for each trial, from the name of the search and the number of the
    trial, so that a search that was interrupted goes on as it would have.

    :param space: of a trial.
    :param default: the searched values of the first trial.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    for settings, loss in finished:
        study.enqueue_trial(settings)
        trial = study.ask()
        space(trial)
        study.tell(trial, math.inf if math.isnan(loss) else loss)
    seed = zlib.crc32(f"{name}/{len(finished)}".encode())
    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)
    if not finished:
        study.enqueue_trial(default)
    return space(study.ask())


def best_of(name: str, finished: Finished) -> Settings:
    """The settings with the lowest loss; the first of them if tied.

    :raises Refused: if every trial diverged.
    """
    known = [(settings, loss) for settings, loss in finished if not math.isnan(loss)]
    if not known:
        raise Refused(f"every trial of {name} diverged")
    return min(known, key=lambda each: each[1])[0]


def planned() -> dict[str, int]:
    """Name of each file of results -> its fits."""
    spaces = sum(bool(method.settings) for method in SEARCHED.values())
    trials = {
        f"search_trials_{name}": plan.trials * (plan.splits if plan.nested else 1) * spaces
        for name, plan in PLANS.items()
    }
    return trials | {f"search_{name}": p.splits * len(SEARCHED) for name, p in PLANS.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce search`."""
    parser.add_argument("--datasets", nargs="+", choices=list(PLANS), default=list(PLANS))
    parser.add_argument("--methods", nargs="+", choices=list(SEARCHED), default=list(SEARCHED))
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the trials and the final fits that the tables lack, one data set after the other."""
    if arguments.device != "cpu":
        raise Refused(f"--device must be cpu, whose time is measured, got {arguments.device}")
    for method in arguments.methods:
        version_of(method)  # which needs its package
    tables = {}
    for name in arguments.datasets:
        count = 1 if arguments.quick else PLANS[name].splits
        fits = search(name, range(FIRST_SPLIT, FIRST_SPLIT + count), arguments)
        path = arguments.output / f"search_{name}.csv"
        tables[path.stem] = run_fits(path, fits, run, arguments)
    print_tables("8", tables)
    print(f"\nwritten: {arguments.output}")
