"""The search is balanced and the same for all, and takes the lowest loss on validation rows."""

import math
from collections import Counter

import pandas as pd
import pytest

from reproduce.methods import METHODS, methods_of
from reproduce.searching.tuning import DESIGN, VALIDATION_LOSS, chosen, trials

CANDIDATES = ["a", "b", "c"]


def results(losses, **more):
    shared = {"dataset": "d", "method": "m", "metric": VALIDATION_LOSS, **more}
    return pd.DataFrame([{**shared, "settings": s, "value": v} for s, v in losses.items()])


def test_every_level_occurs_twice_and_no_trial_twice():
    for column in zip(*DESIGN, strict=True):
        assert Counter(column) == {0: 2, 1: 2, 2: 2}
    assert len({places[:3] for places in DESIGN}) == 6
    assert DESIGN[0] == (0, 0, 0, 0)
    # It is aliased, as the report says.
    assert {place for *_, decay, place in DESIGN if decay == 2} == {1}
    assert {decay for *_, decay, place in DESIGN if place == 1} == {2}


@pytest.mark.parametrize("method", methods_of("held-out"))
def test_every_method_has_six_trials_of_which_the_first_is_the_default(method):
    entry, made = METHODS[method], trials(method)
    first = {name: choices[0] for name, choices in entry.grid.items()}
    assert len(made) == 6
    assert made[0] == {**first, **(entry.own[0] if entry.own else {})}
    for name, choices in entry.grid.items():
        counts = Counter(trial[name] for trial in made)
        assert counts == {level: 2 * choices.count(level) for level in choices}
    for level in entry.own:
        assert sum(level.items() <= trial.items() for trial in made) >= 2


OTHERS = [results({"a": 0.1}, **{key: "other"}) for key in ("method", "dataset", "metric")]


@pytest.mark.parametrize(
    "table",
    [
        results({"a": 0.5, "b": 0.3, "c": 0.4}),
        results({"a": -0.3, "b": -0.5, "c": -0.4}),
        results({"c": 0.3, "b": 0.3, "a": 0.4}),
        results({"a": math.nan, "b": 0.9, "c": math.nan}),
        pd.concat([results({"a": 0.5, "b": 0.4, "c": 0.6, "z": 0.1}), *OTHERS]),
    ],
    ids=["lowest", "negative", "first candidate of a tie", "not diverged", "of the method"],
)
def test_the_lowest_validation_loss_is_chosen(table):
    assert chosen(table, "d", "m", CANDIDATES) == "b"


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        (dict.fromkeys(CANDIDATES, math.nan), "every trial of m on d diverged"),
        ({"a": 0.5, "b": 0.3}, "no trial of m on d with c: run with --tune"),
        ({}, "no trial of m on d with a"),
    ],
)
def test_missing_and_diverged_trials_are_errors_that_name_them(losses, message):
    table = results(losses).reindex(columns=results({"a": 1.0}).columns)
    with pytest.raises(ValueError, match=message):
        chosen(table, "d", "m", CANDIDATES)
