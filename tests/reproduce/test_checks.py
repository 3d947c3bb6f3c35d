"""Searches for pairs out of order, and simple models on the published rows."""

import argparse

import numpy as np
import pandas as pd
import pytest
import torch
from toys import load_as, row, toy

from reproduce.checks import order, row_weights, simple_models
from reproduce.runs import Fit


def search(kind, pairs, split="pairs", place="trained"):
    return Fit("any", kind, "float32", place, split, 0, "any", f'{{"pairs": {pairs}}}')


@pytest.mark.parametrize("kind", ["members, ordinal", "GCM, distribution"])
def test_a_search_finds_what_falls(kind, monkeypatch):
    class Falling:
        def predictive(self, x, r):
            return argparse.Namespace(
                cdf=lambda t: torch.sigmoid(r.sum(1) - t.to(r)),
                quantile=lambda levels: (levels.to(r) - r.sum(1))[:, None],
            )

    monkeypatch.setattr(order, "trained", lambda *_, **__: Falling())
    scores = order.find_crossings(search(kind, 100))
    for name in ("probability, revenues", "probability, thresholds", "quantile, revenues"):
        assert scores[f"{name}, falls"] > 0.2 * scores[f"{name}, pairs"]
    assert scores["quantile, levels, falls"] == 0


def test_the_search_of_a_model_finds_nothing():
    found = order.find_crossings(search("members, distribution", 500, place="loaded"))
    assert not any(value for name, value in found.items() if name.endswith("falls"))
    assert found["probability, revenues, pairs"] == 250
    rows = [row(dataset="members, distribution", metric=k, value=v) for k, v in found.items()]
    assert order.crossings_report(pd.DataFrame(rows)).endswith("0 of 518 pairs fell.")


def test_the_model_that_was_made_to_fall_is_found(monkeypatch):
    flat = argparse.Namespace(predict=lambda x, r: torch.full((len(r),), 0.5))
    monkeypatch.setattr(order, "trained", lambda *_, **__: flat)
    found = order.find_falls(search(order.FALLING, 250, "1 threads"))
    assert found["falls"] > 0
    rows = [row(dataset=order.FALLING, metric=k, value=v) for k, v in found.items()]
    lines = order.falls_report(pd.DataFrame(rows)).splitlines()
    assert lines[2] == f"| {order.FALLING} | yes | {found['pairs']} | {found['falls']} |"
    assert lines[-1] == "Of those that may not fall, 0 in 0 pairs fell."


def test_whole_weights_of_rows_are_counts_in_distribution():
    names = {"dataset": "GCMClassifier", "method": "no early stopping", "settings": '{"seeds": 12}'}
    found = row_weights.run(Fit("any", variant="any", protocol="any", split="0", seed=0, **names))
    p = {way: [v for name, v in found.items() if f"p, {way}" in name] for way in row_weights.WAYS}
    assert min(p["counts"]) > 0.02
    assert min(p["relative"]) < 1e-3
    table = [row(**names, metric=name, value=v) for name, v in found.items()]
    lines = row_weights.report(pd.DataFrame(table)).splitlines()
    corrected = [min(1.0, 4.0 * min(p[way])) for way in row_weights.WAYS]
    assert lines[2].split(" | ")[2:] == [f"{corrected[0]:.2g}", f"{corrected[1]:.2g} |"]


@pytest.mark.parametrize("method", ["Linear", "Linear, revenues alone"])
def test_a_linear_check_is_least_squares(method, monkeypatch):
    table = toy()
    load_as(monkeypatch, lambda name, variant: table)
    shuffled = np.random.RandomState(0).permutation(100)
    learn, test = shuffled[:80], shuffled[80:]
    inputs = table.r if "alone" in method else torch.cat([table.x, table.r], 1)
    inputs = inputs.float()  # as rows are read
    design = torch.cat([inputs, torch.ones(len(inputs), 1)], 1).double().numpy()
    weights, *_ = np.linalg.lstsq(design[learn], table.y[learn].numpy(), rcond=None)
    errors = table.y[test].numpy() - design[test] @ weights
    fit = Fit("checks", "auto_mpg", "published", "published", "fixed", 0, method, "{}")
    found = simple_models.run(fit)["RMSE"]
    assert found == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
