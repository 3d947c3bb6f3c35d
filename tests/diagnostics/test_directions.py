"""Suggested directions: known signs are found, and a wrong one is never suggested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pyro_gcm.diagnostics import suggest_directions
from pyro_gcm.diagnostics.directions import _holm, _table
from pyro_gcm.plots import plot_directions

EVIDENCE = {"up": "rising", "down": "falling", "hump": "neither", "noise": "little"}


def simulated(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.normal(size=rows) for name in EVIDENCE})
    X["noise"] = 0.7 * X["noise"] + 0.5 * X["up"]  # correlated with a column that matters
    X["town"] = [(None, "a", "b")[k] for k in rng.integers(3, size=rows)]
    score = np.tanh(2 * X["up"]) - np.maximum(X["down"], 0) - X["hump"] ** 2 + (X["town"] == "a")
    return X, score.to_numpy() + 0.5 * rng.normal(size=rows)


def test_known_directions_are_found_in_columns_of_numbers() -> None:
    X, y = simulated(800, seed=1)
    X.loc[::7, "up"] = np.nan
    found = suggest_directions(X, y, folds=3, progress=False)
    assert found["evidence"].to_dict() == EVIDENCE
    assert found["suggested"].to_list() == [1, -1, 0, 0]
    assert (found["rising_low"] <= found["rising"]).all()
    again = suggest_directions(X, y, columns=["hump", "up"], folds=3, progress=False)
    assert again["falling"].to_list() == found["falling"][["hump", "up"]].to_list()
    labels = [text.get_text() for text in plot_directions(found).get_yticklabels()]
    assert sorted(labels) == sorted(f"{name}: {kind}" for name, kind in EVIDENCE.items())


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_of_two_classes_suggest_no_wrong_sign(seed: int) -> None:
    X, y = simulated(300, seed)
    found = suggest_directions(X, np.where(y > np.median(y), "yes", "no"), folds=3, progress=False)
    assert found["suggested"]["up"] >= 0 >= found["suggested"]["down"]
    assert found["suggested"]["noise"] == 0


def test_a_direction_that_costs_little_beside_the_other_holds_mostly() -> None:
    cost = np.array([1.0, 1.1, 0.9, 1.0] * 10)
    found = _table({"a": (cost, 20 * cost), "b": (20 * cost, cost), "c": (2 * cost, cost)})
    assert found["evidence"].to_list() == ["mostly rising", "mostly falling", "neither"]
    assert found["suggested"].to_list() == [0, 0, 0]
    # The second p-value of Holm's procedure is compared with 0.05 / 2, the third with 0.05.
    assert _holm(np.array([0.04, 0.001, 0.03])).tolist() == [False, True, False]
    assert _holm(np.array([0.04, 0.001, 0.02])).tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": ["a", "b", "c"] * 10}, r"y must have two classes or be numbers, got 3 classes"),
        ({"y": [1.0] * 30}, r"y must have two classes or be numbers, got 1 classes"),
        ({"y": [1.0, np.nan] * 15}, r"y must have no missing values"),
        ({"y": [0.0, 1.0]}, r"y must have 30 entries, one for each row of X, got 2"),
        ({"columns": ["town"]}, "town"),
        ({"folds": 1}, r"folds must be an integer of at least 2"),
    ],
)
def test_wrong_input_is_named(changed: dict[str, Any], message: str) -> None:
    X, y = simulated(30)
    with pytest.raises((ValueError, KeyError), match=message):
        suggest_directions(**{"X": X, "y": y, "progress": False, **changed})
