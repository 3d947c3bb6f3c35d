"""Gains of members over many data sets: signs, scales and the signed-rank test."""

import math

import numpy as np
import pandas as pd
import pytest
from toys import table

from reproduce.rendering import many_sets


def table_of(scores, metric_of):
    """(data set, method) -> values of its splits."""
    return pd.concat(
        table({(method, metric_of(name)): values}, experiment="search", dataset=name)
        for (name, method), values in scores.items()
    )


def test_gains_are_log_ratios_of_errors_on_shared_splits():
    scores = {
        ("a", "Members"): [0.8, 0.9],
        ("a", "LightGBM"): [0.7],  # of one split alone
        ("b", "Members"): [2.0, 2.0],
        ("b", "LightGBM"): [1.0, 3.0],
        ("b", "XGBoost"): [4.0, 4.0],
    }
    every = table_of(scores, lambda name: "AUC" if name == "a" else "RMSE")
    found = many_sets.gains(every, "error")
    assert found.loc["a", "LightGBM"] == pytest.approx(math.log(0.3 / 0.2))
    assert found.loc["b", "LightGBM"] == pytest.approx(0.0)
    assert found.loc["b", "XGBoost"] == pytest.approx(math.log(2.0))
    assert math.isnan(found.loc["a", "XGBoost"])
    logs = many_sets.gains(every.assign(metric="log score"), "log score")
    assert logs.loc["b", "XGBoost"] == pytest.approx(-2.0)


def test_the_test_is_exact_and_corrected():
    rng = np.random.default_rng(0)
    scores = {}
    for place in range(8):
        base = 1.0 + place
        scores[f"set {place}", "Members"] = [base]
        scores[f"set {place}", "LightGBM"] = [base * (1.1 + 0.01 * place)]
        scores[f"set {place}", "XGBoost"] = [base * math.exp(rng.normal(0.0, 0.1))]
        scores[f"set {place}", "Members, default"] = [base]
    text = many_sets.report(table_of(scores, lambda name: "RMSE"), "error")
    # All eight are above 0, which has probability 2 / 2^8; two methods are tested.
    assert "| LightGBM | 8 | 8 | +13.50 %* | 0.0078 | 0.0156 |" in text
    assert "XGBoost | 8 |" in text
    assert "Members, default" not in text
