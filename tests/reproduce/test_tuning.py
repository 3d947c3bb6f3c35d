"""The search is balanced and the same for all, and takes the lowest loss on validation rows."""

import math
from collections import Counter

import pandas as pd
import pytest

from reproduce.methods import METHODS, methods_of
from reproduce.searching.tuning import VALIDATION_LOSS, chosen, trials

CANDIDATES = ["a", "b", "c"]


def results(losses, **more):
    shared = {"dataset": "d", "method": "m", "metric": VALIDATION_LOSS, **more}
    return pd.DataFrame([{**shared, "settings": s, "value": v} for s, v in losses.items()])


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
#: What a table is of -> the table, of which "b" is to be chosen.
TABLES = {
    "lowest": results({"a": 0.5, "b": 0.3, "c": 0.4}),
    "negative": results({"a": -0.3, "b": -0.5, "c": -0.4}),
    "first candidate of a tie": results({"c": 0.3, "b": 0.3, "a": 0.4}),
    "not diverged": results({"a": math.nan, "b": 0.9, "c": math.nan}),
    "of the method": pd.concat([results({"a": 0.5, "b": 0.4, "c": 0.6, "z": 0.1}), *OTHERS]),
}


def test_the_lowest_validation_loss_is_chosen():
    for name, table in TABLES.items():
        assert chosen(table, "d", "m", CANDIDATES) == "b", name
    for losses, message in (
        (dict.fromkeys(CANDIDATES, math.nan), "every trial of m on d diverged"),
        ({"a": 0.5, "b": 0.3}, "no trial of m on d with c: run with --tune"),
        ({}, "no trial of m on d with a"),
    ):
        table = results(losses).reindex(columns=results({"a": 1.0}).columns)
        with pytest.raises(ValueError, match=message):
            chosen(table, "d", "m", CANDIDATES)
