"""The same small search for every method, and trials of a larger one by Optuna."""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from reproduce.methods import METHODS, Levels
from reproduce.runs import RESULTS, Fit, Refused, Settings, read_results, run_fits

#: The six trials, as places in the levels of the grid and, last, in those of the method's own
#: setting. Every level of every setting occurs twice; the first trial is the default. The design is
#: aliased: the second level of the own setting occurs only with the third of weight decay.
DESIGN = (
    (0, 0, 0, 0),
    (0, 1, 2, 1),
    (1, 1, 0, 2),
    (1, 2, 1, 0),
    (2, 2, 2, 1),
    (2, 0, 1, 2),
)
#: The score that a trial is judged by, on rows that it did not see: lower is better.
VALIDATION_LOSS = "validation loss"
#: (data set, method) -> settings as JSON.
Chosen = dict[tuple[str, str], str]


def trials(method: str, own: Levels | None = None) -> list[Settings]:
    """The six settings that are searched for a method.

    Boosting has 100 trees, and 10 / learning_rate where that is more: small steps need many.

    :param own: levels of an experiment, in place of those of the method's own setting.
    """
    entry = METHODS[method]
    own = own or entry.own
    made: list[Settings] = []
    for *places, last in DESIGN:
        shared = zip(entry.grid.items(), places, strict=True)
        trial = {name: values[place] for (name, values), place in shared}
        made.append({**trial, **(own[last] if own else {})})
    for trial in made if entry.trees else []:
        trees = round(10 / trial["learning_rate"])
        if trees > 100:
            trial[entry.trees] = trees
    return made


def best_settings(
    experiment: str,
    candidates: Mapping[tuple[str, str], list[str]],
    run: Callable[..., Any],
    arguments: argparse.Namespace,
    split: str = "0",
    together: Callable[[Fit], Any] | None = None,
) -> Chosen:
    """The best candidate of every data set and method: see `chosen`.

    :param candidates: (data set, method) -> settings as JSON, the default first.
    :param run: runs the trials with --tune or --quick; without them the committed ones decide.
    :param together: as in `run_fits`.
    """
    path = RESULTS / f"{experiment}_tuning.csv"
    if arguments.tune or arguments.quick:
        fits = [
            Fit(experiment, name, "default", "tuning", split, 0, method, settings)
            for (name, method), every in candidates.items()
            for settings in every
        ]
        table = run_fits(arguments.output / path.name, fits, run, arguments, together)
    else:
        table = read_results(path)
    return {
        (name, method): chosen(table, name, method, every)
        for (name, method), every in candidates.items()
    }


def chosen(table: pd.DataFrame, dataset: str, method: str, candidates: list[str]) -> str:
    """The candidate with the lowest validation loss; the first of them if tied.

    :param table: results of the trials.
    :param candidates: settings as JSON, the default first.
    :raises Refused: if the table lacks one of them, or every one of them diverged.
    """
    trial = table[(table["dataset"] == dataset) & (table["method"] == method)]
    losses = trial[trial["metric"] == VALIDATION_LOSS].set_index("settings")["value"]
    lacking = [settings for settings in candidates if settings not in losses.index]
    if lacking:
        raise Refused(f"no trial of {method} on {dataset} with {lacking[0]}: run with --tune")
    losses = losses.loc[candidates]
    if losses.isna().all():
        raise Refused(f"every trial of {method} on {dataset} diverged")
    return str(losses.idxmin())


def add_tune_argument(parser: argparse.ArgumentParser) -> None:
    """Option of every experiment that has a search."""
    parser.add_argument(
        "--tune",
        action="store_true",
        help="run the trials that the output folder lacks and choose among those; "
        "without it, among the committed ones",
    )


#: Trials before TPE's model is used: the default, and random ones.
STARTUP = 8
#: Settings and losses of the finished trials of one search; a loss is NaN if they diverged.
Finished = list[tuple[Settings, float]]


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
