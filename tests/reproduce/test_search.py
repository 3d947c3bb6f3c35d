"""The search: which rows it looks at, that it goes on where it stopped, and its tables."""

import json
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.metrics import log_loss, roc_auc_score
from toys import options, toy

from pyro_gcm.training import Diverged
from reproduce import tasks
from reproduce.intervals import Interval, holm, mean_interval
from reproduce.methods import Rows
from reproduce.methods.spaces import SEARCHED, Searched
from reproduce.runs import Fit, Refused, as_json, read_results
from reproduce.searching import search
from reproduce.searching.search import VALIDATION_LOSS

ROWS = 500


SPACE = {
    "shift": {"default": -1.0, "range": [-2.0, 2.0]},
    "kind": {"default": "a", "choices": ["a", "b"]},
}


def rounds(stop):
    """What a toy finds when it stops early on some rows."""
    return 10 + sum(stop) % 50


class Shifted:
    """Predicts from r alone; the loss is lowest at a shift of 0.5."""

    def __init__(self, shift, response):
        self.shift, self.response = shift, response

    def predict(self, x, r):
        score = r.sum(1) + self.shift - 0.5
        return torch.sigmoid(score) if self.response == "binary" else score


@pytest.fixture
def given(monkeypatch):
    """Two methods on small data sets: what each fit was given, by the numbers of the rows."""
    given = []

    def fit(rows, until, settings, seed):
        stop = until.x[:, 0].long().tolist() if isinstance(until, Rows) else until
        given.append((rows.x[:, 0].long().tolist(), stop, settings, seed))
        if settings["shift"] > 1.9:
            raise Diverged("too far")
        found = until if isinstance(until, int) else rounds(stop)
        return Shifted(settings["shift"], rows.response), found

    loaded = {kind: toy(rows=ROWS, response=kind) for kind in ("binary", "continuous")}
    kinds = {"blog": "continuous", "auto_mpg": "continuous"}
    monkeypatch.setattr(tasks, "load", lambda name, variant: loaded[kinds.get(name, "binary")])
    for name in list(SEARCHED):
        monkeypatch.delitem(SEARCHED, name)
    for name in ("HistGradientBoosting", "MM"):
        monkeypatch.setitem(SEARCHED, name, Searched(SPACE, fit))
    return given


def asked(tmp_path, *more):
    return options(search, tmp_path, "--jobs", "1", *more)


def fit(protocol, name="adult", split="aside", seed=3, shift=0.0, **more):
    settings = {"shift": shift, "kind": "a", "folds": 1, **more}
    return Fit("search", name, "default", protocol, split, seed, "MM", as_json(settings))


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_no_row_that_chose_is_trained_on_or_tested_in_a_final_fit(count):
    dataset = toy(x_dim=2, r_dim=1, rows=count)
    plan = search.PLANS["adult"]
    chosen = search.searched_rows(dataset, plan, "aside")
    assert len(chosen) == min(count * 3 // 10, 20_000)
    tests = set()
    for split in ("100", "101"):
        learn, test = search.tested_rows(dataset, plan, split)
        assert len(test) == (count - len(chosen)) // 5
        assert torch.equal(torch.cat([chosen, learn, test]).sort().values, torch.arange(count))
        tests.add(tuple(test.tolist()))
    assert len(tests) == 2


def test_a_nested_search_looks_at_the_training_rows_of_its_split():
    dataset, plan = toy(rows=100), search.PLANS["compas"]
    for found, own in zip(
        search.tested_rows(dataset, plan, "119"), dataset.split(119), strict=True
    ):
        assert torch.equal(found, own)
    assert torch.equal(search.searched_rows(dataset, plan, "119"), dataset.split(119)[0])


@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("name", ["adult", "blog"])
def test_a_trial_is_judged_on_rows_that_neither_trained_nor_stopped_it(given, name, folds):
    dataset = tasks.load(name, "default")
    rows = search.searched_rows(dataset, search.PLANS[name], "aside")
    scores = search.run(fit("trials", name, folds=folds))
    judged = []
    assert len(given) == folds
    for grow, stop, settings, seed in given:
        assert (len(grow), len(stop)) == (90, 30)
        assert not set(grow) & set(stop)
        judged += sorted(set(rows.tolist()) - set(grow) - set(stop))
        assert (settings, seed) == ({"shift": 0.0, "kind": "a"}, 3)
    assert len(judged) == len(set(judged)) == 30 * folds
    y = dataset.y[judged]
    prediction = Shifted(0.0, dataset.response).predict(dataset.x[judged], dataset.r[judged])
    loss = log_loss(y, prediction) if name == "adult" else (y - prediction).square().mean().sqrt()
    assert scores[VALIDATION_LOSS] == pytest.approx(float(loss))
    assert scores["epochs"] == np.mean([rounds(stop) for _, stop, _, _ in given])


@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("name", ["adult", "blog"])
def test_a_final_fit_stops_on_a_fifth_and_trains_on_all_training_rows(given, name, folds):
    dataset = tasks.load(name, "default")
    learn, test = search.tested_rows(dataset, search.PLANS[name], "104")
    scores = search.run(fit("held-out", name, "104", folds=folds))
    stopped = []
    for grow, stop, _, _ in given[:-1]:
        assert (len(grow), len(stop)) == (224, 56)
        assert sorted(grow + stop) == sorted(learn.tolist())
        stopped += stop
    assert len(set(stopped)) == 56 * folds
    found = round(np.mean([rounds(stop) for _, stop, _, _ in given[:-1]]))
    assert given[-1][:2] == (learn.tolist(), found)
    assert scores["epochs"] == found
    model = Shifted(0.0, dataset.response)
    prediction = model.predict(dataset.x[test], dataset.r[test])
    if name == "adult":
        assert scores["AUC"] == pytest.approx(roc_auc_score(dataset.y[test], prediction))
    else:
        error = dataset.y[stopped] - model.predict(dataset.x[stopped], dataset.r[stopped])
        density = stats.norm(prediction, error.square().mean().sqrt())
        expected = density.logpdf(dataset.y[test]).mean()
        assert scores["log score"] == pytest.approx(expected)
    assert {"stopping seconds", "fit seconds", "predict milliseconds"} < {*scores}
    assert scores["predict milliseconds"] > 0


def without_seconds(folder, name):
    return read_results(folder / name).drop(columns="seconds")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("stop", [1, 7, 23, 26])
def test_an_interrupted_search_chooses_as_one_that_never_stopped(
    given, stop, tmp_path, monkeypatch
):
    monkeypatch.setitem(search.PLANS, "adult", search.Plan(trials=12, splits=2))
    command = ("--datasets", "adult")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    search.main(asked(whole, *command))
    run, ran = search.run, []

    def interrupted(fit, device="cpu"):
        if len(ran) == stop:
            raise KeyboardInterrupt
        ran.append((fit.protocol, fit.split, fit.seed, fit.method))
        return run(fit, device)

    monkeypatch.setattr(search, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.main(asked(resumed, *command))
    assert len(read_results(resumed / "search_trials_adult.csv")) == min(stop, 24)
    stop = math.inf
    search.main(asked(resumed, *command))
    assert len(ran) == len(set(ran)) == 24 + 4  # none was run twice
    for name in ("search_trials_adult.csv", "search_adult.csv"):
        one, other = without_seconds(whole, name), without_seconds(resumed, name)
        times = one["metric"].str.contains("seconds")
        one.loc[times, "value"] = other.loc[times, "value"]
        pd.testing.assert_frame_equal(one, other)
    trials = read_results(whole / "search_trials_adult.csv")
    for method in ("HistGradientBoosting", "MM"):
        mine = trials[trials["method"] == method]
        assert mine["seed"].tolist() == list(range(12))
        assert json.loads(mine["settings"].iloc[0])["shift"] == -1.0
        best = json.loads(mine.set_index("settings")["value"].idxmin())
        assert best["shift"] != -1.0
        final = read_results(whole / "search_adult.csv")
        assert set(final[final["method"] == method]["settings"]) == {as_json(best)}


def test_a_proposal_depends_on_the_name_the_number_and_what_is_known():
    space = partial(Searched(SPACE, None).space, rows=100)

    def run(name, loss, known=()):
        trials = list(known)
        while len(trials) < 14:
            settings = search.proposed(name, space, {"shift": 0.5, "kind": "b"}, trials)
            trials.append((settings, loss(settings["shift"])))
        return trials

    near, far = (lambda shift: abs(shift - 1.5)), (lambda shift: -abs(shift))
    one, named, told = run("a", near), run("b", near), run("a", far)
    assert one[0][0] == named[0][0] == {"shift": 0.5, "kind": "b"}
    assert one[1][0] != named[1][0]
    first = slice(search.STARTUP)
    assert [each for each, _ in one[first]] == [each for each, _ in told[first]]
    assert one[-1][0] != told[-1][0]
    assert run("a", near, [(json.loads(json.dumps(s)), loss) for s, loss in one[:11]]) == one
    assert search.best_of("a", one) == min(one, key=lambda each: each[1])[0]
    with pytest.raises(Refused, match="every trial of c diverged"):
        search.best_of("c", [({}, math.nan)] * 2)


def test_holm_and_p_values():
    values = pd.Series([0.3, 0.1, 0.25, -0.05, 0.2])
    assert mean_interval(values).p_value == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)
    assert Interval(0.0, 0.0, 5).p_value == 1.0
    assert Interval(0.1, 0.0, 5).p_value == 0.0
    assert math.isnan(Interval(0.1, math.nan, 1).p_value)
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "e": math.nan})
    assert math.isnan(found.pop("e"))
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({"a": 0.8, "b": 0.9}) == {"a": 1.0, "b": 1.0}
