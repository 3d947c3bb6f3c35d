"""Searches for pairs out of order."""

import argparse

import pandas as pd
import pytest
import torch
from toys import row

from reproduce.checks import order
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
