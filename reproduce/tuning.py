"""The same small search for every method: six settings, the best on validation rows."""

from __future__ import annotations

import argparse

import pandas as pd

from reproduce.arguments import Refused
from reproduce.methods import METHODS, Grid, Knob
from reproduce.runs import Settings

#: The six trials, as places in the levels above and, last, in those of the method's own knob.
#: Every level of every setting occurs twice; the first trial is the default.
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


def trials(method: str, knob: Knob | None = None, grid: Grid | None = None) -> list[Settings]:
    """The six settings that are searched for a method; its knob or its grid may be another.

    Boosting has 100 trees, and 10 / learning_rate where that is more: small steps need many.
    """
    entry = METHODS[method]
    knob = knob or entry.knob
    levels = [*(grid or entry.grid).items(), *([knob] if knob else [])]
    made: list[Settings] = [
        {name: choices[place] for (name, choices), place in zip(levels, places, strict=False)}
        for places in DESIGN
    ]
    for trial in made if entry.boosting else []:
        trees = round(10 / trial["learning_rate"])
        if trees > 100:
            trial[entry.trees] = trees
    return made


def chosen(table: pd.DataFrame, dataset: str, method: str, candidates: list[str]) -> str:
    """The candidate with the lowest validation loss; the first of them if tied.

    :param table: results of the trials.
    :param candidates: settings as JSON, the default first.
    :raises Refused: if the table lacks one of them, or none ended in a number.
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
