"""All methods on the public data sets: Table 3 of the paper, under several protocols.

"confirmation" is "held-out" on further splits, which were not looked at when choices were made;
"members" are members with their defaults on the splits of both; "released" is the training code
behind the paper's table, see `reproduce.released`, and "changes" that with one change at a time.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
from sklearn.metrics import log_loss, mean_squared_error, root_mean_squared_error
from torch import Tensor

from pyro_gcm import audit_monotonicity, data
from pyro_gcm.training import Diverged
from reproduce import released, released_tables
from reproduce.arguments import Refused, positive_count
from reproduce.methods import (
    METHODS,
    Predictor,
    check_weights,
    methods_of,
    rows_of,
    train,
)
from reproduce.runs import Fit, Scores, Settings, add_run_arguments, as_json, run_fits
from reproduce.scores import binary_scores
from reproduce.tables import own_scores
from reproduce.tasks import (
    PUBLISHED_TASKS,
    TASKS,
    Task,
    paper_hyperparameters,
    published_split,
    rows_of_fit,
)
from reproduce.tuning import VALIDATION_LOSS, add_tune_argument, best_settings, trials

HELD_OUT, PUBLISHED, MEMBERS = map(methods_of, ("held-out", "published", "members"))
#: First split of each protocol with random splits.
FIRST_SPLIT = {"held-out": 0, "confirmation": 10}
#: Rows of the training part that the search uses at most.
SEARCH_ROWS = 20_000
#: Size of the search for violations in every held-out fit.
AUDITED_ROWS, AUDITED_PAIRS = 500, 2_000
#: What --quick makes of every fit.
QUICK: Settings = {"epochs": 1, "rows": 200}


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
        base |= {"num_particles": 16, **_least_squares(task, method)}
    return {**base, **QUICK} if quick else base


def _least_squares(task: Task, method: str) -> Settings:
    """For RMSE, the mean outside the logarithm, as in the paper's appendix D.3, and one spread.

    The importance-weighted bound fits a mixture over z: a better density, a worse mean.
    """
    if task.metric != "RMSE":
        return {}
    bound = {} if METHODS[method].fixed.get("objective") == "paper" else {"elbo": "elbo"}
    return {"noise": "constant", **bound}


def published_settings(name: str, method: str, quick: bool) -> str:
    """The hyperparameters of the paper's Table 5, for every method, as JSON."""
    settings = paper_hyperparameters(name)
    if METHODS[method].latent:
        settings["num_samples"] = settings["num_particles"]  # the paper predicts with them, too
        settings |= _least_squares(TASKS[name], method)
    else:
        del settings["num_particles"], settings["z_dim"]
    return as_json({**settings, **(QUICK if quick else {})})


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One fit of any protocol; NaN where it diverged."""
    dataset, learn, test, settings = rows_of_fit(fit)
    if fit.protocol == "tuning":
        learn = learn[:SEARCH_ROWS]
        size = len(learn) * 4 // 5
        learn, test = learn[:size], learn[size:]
    start = time.perf_counter()
    try:
        if fit.protocol == "published" and not METHODS[fit.method].estimator:
            return _best_epoch(fit, dataset, learn, test, settings, device)
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
        scores = scores_of(dataset, prediction, test)
    if fit.protocol == "held-out":
        scores["violation rate"] = _violation_rate(dataset, model, test, device)
    return {**scores, "seconds": seconds, "epochs": epochs}


def _predict(dataset: data.Dataset, model: Predictor, test: Tensor, device: str) -> np.ndarray:
    x, r = dataset.x[test].to(device), dataset.r[test].to(device)
    prediction: np.ndarray = model.predict(x, r).double().cpu().numpy()
    return prediction


def scores_of(dataset: data.Dataset, prediction: np.ndarray, test: Tensor) -> dict[str, float]:
    """Scores of a prediction of some rows: all metrics of a binary y, RMSE of another."""
    y = dataset.y[test].numpy()
    if dataset.response == "binary":
        return binary_scores(prediction, y)
    return {"RMSE": root_mean_squared_error(y, prediction)}


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


def _best_epoch(
    fit: Fit,
    dataset: data.Dataset,
    learn: Tensor,
    test: Tensor,
    settings: Settings,
    device: str,
) -> Scores:
    """The metric at the epoch where it is best on the test rows, and at the last one."""
    task = TASKS[fit.dataset]
    steps = math.ceil(len(learn) / settings["batch_size"])
    curve: list[float] = []

    def watch(step: int, model: Predictor) -> None:
        if step and step % steps == 0:
            check_weights(model)
            prediction = _predict(dataset, model, test, device)
            curve.append(scores_of(dataset, prediction, test)[task.metric])

    start = time.perf_counter()
    train(fit.method, rows_of(dataset, learn), settings, fit.seed, device=device, watch=watch)
    best = (np.argmin if task.lower_is_better else np.argmax)(curve)
    return {
        task.metric: curve[best],
        f"{task.metric}, last epoch": curve[-1],
        "seconds": time.perf_counter() - start,
        "epochs": int(best) + 1,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce public`."""
    protocols = [*FIRST_SPLIT, "members", "published", "released", "changes"]
    parser.add_argument("--protocol", choices=protocols, default="held-out")
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=None)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=None)
    parser.add_argument(
        "--seeds", type=positive_count, default=10, help="splits of a round, or seeds on one split"
    )
    add_tune_argument(parser)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the tables lack."""
    protocol = arguments.protocol
    path = arguments.output / f"public_{protocol}.csv"
    if protocol in ("released", "changes"):
        known = PUBLISHED_TASKS if protocol == "released" else list(released.KNOWN_SPLITS)
        _restrict(arguments, "datasets", known)
        _restrict(arguments, "methods", list(released.FORMS))
        make = released.fits if protocol == "released" else released.changed
        table = run_fits(path, make(arguments), released.run, arguments, released.together)
        shown = released_tables.report(table, protocol)
    else:
        tasks, known, make = {
            "published": (PUBLISHED_TASKS, PUBLISHED, published_fits),
            "members": (list(TASKS), MEMBERS, member_fits),
        }.get(protocol, (list(TASKS), HELD_OUT, held_out_fits))
        _restrict(arguments, "datasets", tasks)
        _restrict(arguments, "methods", known)
        table = run_fits(path, make(arguments), run, arguments)
        shown = own_scores(table)
    print(f"\nProtocol {protocol}\n\n{shown}")
    print(f"\nwritten: {path}")


def _restrict(arguments: argparse.Namespace, option: str, known: list[str]) -> None:
    """Fill in what was not given with everything that the protocol has; refuse what it lacks."""
    options = vars(arguments)
    options[option] = options[option] or known
    strange = [name for name in options[option] if name not in known]
    if strange:
        raise Refused(
            f"--{option} {' '.join(strange)}: protocol {arguments.protocol} has {', '.join(known)}"
        )


def published_fits(arguments: argparse.Namespace) -> list[Fit]:
    """Every method on the split of the literature, or on one random split where there is none."""
    quick = arguments.quick
    return [
        Fit(
            *("public", name, "published", "published", published_split(name), seed, method),
            published_settings(name, method, quick),
        )
        for name in arguments.datasets
        for seed in range(1 if quick else arguments.seeds)
        for method in arguments.methods
    ]


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
