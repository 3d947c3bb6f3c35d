"""The search is balanced and the same for all, and takes the lowest loss on validation rows."""

import math
from collections import Counter

import pandas as pd
import pytest

from reproduce.methods import METHODS, levels, methods_of
from reproduce.tuning import DESIGN, VALIDATION_LOSS, chosen, trials

CANDIDATES = ["a", "b", "c"]


def results(losses, **more):
    shared = {"dataset": "d", "method": "m", "metric": VALIDATION_LOSS, **more}
    return pd.DataFrame([{**shared, "settings": s, "value": v} for s, v in losses.items()])


def test_every_level_occurs_twice_and_no_trial_twice():
    for column in zip(*DESIGN, strict=True):
        assert Counter(column) == {0: 2, 1: 2, 2: 2}
    assert len({places[:3] for places in DESIGN}) == 6
    assert DESIGN[0] == (0, 0, 0, 0)


def test_the_design_is_aliased_as_the_report_says():
    assert {place for *_, decay, place in DESIGN if decay == 2} == {1}
    assert {decay for *_, decay, place in DESIGN if place == 1} == {2}


@pytest.mark.parametrize("method", [*methods_of("held-out"), *methods_of("open")])
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


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("HistGradientBoosting", "max_iter"),
        ("XGBoost", "n_estimators"),
        ("LightGBM", "n_estimators"),
    ],
)
def test_small_steps_of_boosting_have_more_trees(method, name):
    trees = {trial["learning_rate"]: trial.get(name) for trial in trials(method)}
    assert trees == {0.1: None, 0.3: None, 0.03: 333}


def test_levels_of_an_experiment_replace_those_of_the_method():
    own = trials("GCM", levels("z_dim", 4, 2, 1))
    assert [trial["z_dim"] for trial in own] == [4, 2, 1, 4, 2, 1]
    assert "form" not in own[0]
    assert "learning_rate" in own[0]


def test_the_lowest_validation_loss_is_chosen():
    assert chosen(results({"a": 0.5, "b": 0.3, "c": 0.4}), "d", "m", CANDIDATES) == "b"
    assert chosen(results({"a": -0.5, "b": -0.3, "c": -0.4}), "d", "m", CANDIDATES) == "a"


def test_ties_go_to_the_first_candidate_and_not_the_first_row():
    table = results({"c": 0.3, "b": 0.3, "a": 0.4})
    assert chosen(table, "d", "m", CANDIDATES) == "b"


def test_diverged_trials_are_never_chosen():
    assert chosen(results({"a": math.nan, "b": 0.9, "c": math.nan}), "d", "m", CANDIDATES) == "b"
    with pytest.raises(ValueError, match="every trial of m on d diverged"):
        chosen(results(dict.fromkeys(CANDIDATES, math.nan)), "d", "m", CANDIDATES)


def test_a_missing_trial_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="no trial of m on d with c: run with --tune"):
        chosen(results({"a": 0.5, "b": 0.3}), "d", "m", CANDIDATES)
    with pytest.raises(ValueError, match="no trial of m on d with a"):
        chosen(results({}).reindex(columns=results({"a": 1.0}).columns), "d", "m", CANDIDATES)


def test_other_methods_data_sets_metrics_and_settings_do_not_count():
    table = pd.concat(
        [
            results({"a": 0.5, "b": 0.4, "c": 0.6, "z": 0.1}),
            results({"a": 0.1}, method="other"),
            results({"a": 0.1}, dataset="other"),
            results({"a": 0.1}, metric="AUC"),
        ]
    )
    assert chosen(table, "d", "m", CANDIDATES) == "b"
