"""Shapley values: against their definition, what they add up to, and what directions promise."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from loans import loans

from pyro_gcm.estimators import GCMClassifier, GCMRegressor

X, LATE = loans(300)
DIRECTIONS = {"income": -1, "debt": 1, "grade": 1}
OPTIONS = {"monotonic_cst": DIRECTIONS, "epochs": 8, "hidden": 16, "members": 4}
BACKGROUND = X[20:50]


@pytest.fixture(scope="module")
def model():
    return GCMClassifier(**OPTIONS).fit(X, LATE)


def risk(model, rows):
    return model.predict_proba(rows)[:, 1]


def by_definition(model, row):
    """The mean over all orders of what a column adds as it takes the value of the row."""
    names, known = [*X], {}

    def value(kept):
        if kept not in known:
            rows = BACKGROUND.copy()
            for name in kept:
                rows[name] = pd.Series([row[name].iloc[0]] * len(rows), rows.index, X[name].dtype)
            known[kept] = risk(model, rows).mean()
        return known[kept]

    found = dict.fromkeys(names, 0.0)
    orders = list(permutations(names))
    for order in orders:
        for at, name in enumerate(order):
            step = value(frozenset(order[: at + 1])) - value(frozenset(order[:at]))
            found[name] += step / len(orders)
    return found


def test_exact_values_are_those_of_the_definition_and_add_up(model):
    rows = X[:3]
    found = model.contributions(rows, BACKGROUND)
    assert (found["error"] == 0.0).all()
    for at, of_row in found.groupby("row"):
        wanted = by_definition(model, rows[at : at + 1])
        got = of_row.set_index("feature")["contribution"]
        for name in X:
            assert got[name] == pytest.approx(wanted[name], abs=1e-6)
        assert got.abs().is_monotonic_decreasing
    total = found.groupby("row")["contribution"].sum()
    np.testing.assert_allclose(
        total, risk(model, rows) - risk(model, BACKGROUND).mean(), atol=1e-12
    )


def test_sampled_values_add_up_and_lie_within_their_errors(model):
    exact = model.contributions(X[:20], BACKGROUND).set_index(["row", "feature"])
    found = model.contributions(X[:20], BACKGROUND, orders=3, seed=1)
    total = found.groupby("row")["contribution"].sum()
    np.testing.assert_allclose(
        total, risk(model, X[:20]) - risk(model, BACKGROUND).mean(), atol=1e-12
    )
    found = found.set_index(["row", "feature"]).loc[exact.index]
    assert (found["error"] > 0.0).any()
    z = (found["contribution"] - exact["contribution"]) / found["error"].clip(lower=1e-9)
    assert 0.5 < (z**2).mean() < 2.0  # of 100 values about 1, with a standard error below .2
    again = model.contributions(X[:20], BACKGROUND, orders=3, seed=1)
    assert again.set_index(["row", "feature"]).loc[exact.index].equals(found)


@pytest.mark.parametrize("orders", [None, 2])
def test_a_column_better_than_all_others_never_lowers_the_prediction(model, orders):
    others = X.dropna()[50:90]
    rows = X.dropna()[:20].copy()
    for name, sign in DIRECTIONS.items():
        better = rows.copy()
        if name == "grade":
            better[name] = pd.Categorical(["C"] * 20, X["grade"].cat.categories, ordered=True)
        else:
            better[name] = others[name].max() if sign > 0 else others[name].min()
        found = model.contributions(better, others, orders=orders)
        of_column = found.loc[found["feature"] == name, "contribution"]
        assert len(of_column) == 20
        assert (of_column >= 0.0).all()
        assert (of_column > 0.0).any()


def test_numbers_without_names_and_wrong_options():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2))
    model = GCMRegressor(monotonic_cst=[1, 0], epochs=3, members=2).fit(rows, rows.sum(1))
    found = model.contributions(rows[:2], rows)
    assert set(found["feature"]) == {0, 1}
    total = found.groupby("row")["contribution"].sum()
    np.testing.assert_allclose(total, model.predict(rows[:2]) - model.predict(rows).mean())
    with pytest.raises(ValueError, match="orders must be"):
        model.contributions(rows[:2], rows, orders=1)
    with pytest.raises(ValueError, match="background, in place of X: X has 1 features"):
        model.contributions(rows[:2], rows[:, :1])
