"""A fit that diverged is a result of every study: its scores are NaN."""

import math

import pytest
from toys import load_as, toy

from pyro_gcm.training import Diverged
from reproduce import public
from reproduce.defaults import untouched
from reproduce.methods.spaces import Searched
from reproduce.runs import Fit, as_json
from reproduce.searching import search

NETWORK = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1, "hidden": 4}


@pytest.mark.parametrize(
    ("study", "dataset", "protocol", "method", "settings", "metrics"),
    [
        (public, "blog", "held-out", "MLP", NETWORK, {"RMSE"}),
        (search, "blog", "trials", "MM", {"folds": 1}, {search.VALIDATION_LOSS}),
        (search, "adult", "held-out", "MM", {"folds": 1}, {"AUC", "log score"}),
        (search, "blog", "held-out", "MM", {"folds": 1}, {"RMSE", "log score"}),
        (untouched, "fair", "held-out", "wild", {"rows": 300}, {"AUC"}),
        (untouched, "randhie", "held-out", "wild", {"rows": 300}, {"RMSE"}),
    ],
)
def test_a_fit_that_diverged_has_no_score(
    study, dataset, protocol, method, settings, metrics, monkeypatch
):
    def diverge(*arguments, **options):
        raise Diverged("far away")

    response = "continuous" if dataset == "blog" else "binary"
    load_as(monkeypatch, lambda name, variant: toy(response=response, rows=500))
    for module in (public, untouched):
        monkeypatch.setattr(module, "train", diverge)
    monkeypatch.setitem(search.SEARCHED, "MM", Searched({}, diverge))
    split = "aside" if protocol == "trials" else "100"
    fit = Fit("any", dataset, "default", protocol, split, 0, method, as_json(settings))
    scores = study.run(fit)
    assert set(scores) == metrics
    assert all(map(math.isnan, scores.values()))
