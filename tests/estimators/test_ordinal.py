"""`GCMOrdinal`: the order of the levels, and what is monotone of its answers."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pyro_gcm.estimators import GCMOrdinal

NAMES = ["poor", "fair", "good", "fine"]
SMALL = {"monotonic_cst": {"dose": 1}, "epochs": 6, "hidden": 8, "members": 2}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": rng.normal(size=240), "site": rng.choice(list("uv"), 240)})
    score = X["dose"] + (X["site"] == "u") + rng.logistic(size=240) / 2
    y = pd.cut(score, [-np.inf, -0.5, 0.5, 1.5, np.inf], labels=NAMES)
    X.loc[::11, "dose"] = np.nan
    return X, y


@pytest.fixture(scope="module")
def model(table):
    return GCMOrdinal(**SMALL).fit(*table)


def test_ordered_categories_keep_their_order(table, model):
    X, y = table
    assert model.classes_.tolist() == NAMES
    probability = model.predict_proba(X)
    assert probability.shape == (240, 4)
    np.testing.assert_allclose(probability.sum(1), 1.0, atol=1e-12)
    assert model.score(X, y) > 0.45
    assert set(model.predict(X)) <= set(NAMES)


@pytest.mark.parametrize("form", ["polars", "categorical", "levels"])
def test_the_order_may_come_in_other_ways(form, table, model):
    X, y = table
    given = {
        "polars": pl.Series(list(y), dtype=pl.Enum(NAMES)),
        "categorical": y.array,
        "levels": list(y),
    }[form]
    options = {"levels": NAMES} if form == "levels" else {}
    other = GCMOrdinal(**SMALL, **options).fit(X, given)
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


def test_text_without_an_order_warns_and_numbers_do_not(table):
    X, y = table
    with pytest.warns(UserWarning, match="sorted order"):
        made = GCMOrdinal(epochs=1, members=2, hidden=8).fit(X, list(y))
    assert made.classes_.tolist() == sorted(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = GCMOrdinal(**{**SMALL, "epochs": 1}).fit(X, 10 * y.cat.codes)
    assert made.classes_.tolist() == [0, 10, 20, 30]


def test_levels_that_no_row_has_keep_their_column(table):
    X, y = table
    seen = y != "fine"
    made = GCMOrdinal(**SMALL).fit(X[seen], y[seen])
    assert made.predict_proba(X).shape == (240, 4)
    assert made.predict_proba(X)[:, 3].mean() < 0.1


def test_what_is_monotone(model):
    X = pd.DataFrame({"dose": np.linspace(-3, 3, 80), "site": ["u"] * 80})
    above = model.predict_cumulative(X)
    assert above.shape == (80, 3)
    assert (np.diff(above, axis=0) >= 0).all()
    assert (np.diff(above, axis=1) <= 0).all()
    assert (np.diff(model.predict_mean(X)) >= 0).all()
    places = [NAMES.index(level) for level in model.predict_median(X)]
    assert (np.diff(places) >= 0).all()
    np.testing.assert_allclose(above.sum(1), model.predict_mean(X), atol=1e-5)
    np.testing.assert_allclose(
        above, model.predict_proba(X)[:, ::-1].cumsum(1)[:, -2::-1], atol=1e-6
    )


def test_the_median_is_where_the_probabilities_reach_a_half(table, model):
    X, _ = table
    below = 1.0 - model.predict_cumulative(X)
    wanted = np.array(NAMES)[(below < 0.5).sum(1)]
    assert (model.predict_median(X) == wanted).all()


def test_questions_of_levels(table, model):
    X, _ = table
    explained = model.explain(X[:5], above="fair")
    np.testing.assert_allclose(explained["probability"], model.predict_cumulative(X[:5])[:, 1])
    with pytest.raises(ValueError, match="above must be a level below the highest"):
        model.explain(X[:5], above="fine")


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"levels": ["poor", "good"]}, None, "y must have labels among levels"),
        ({"levels": ["poor", "poor"]}, None, "levels must be two or more different labels"),
        ({"levels": "poor"}, None, "levels must be a list"),
        ({}, ["poor"] * 240, "at least two classes, got one class"),
        ({}, np.linspace(0.0, 1.0, 240), "continuous"),
    ],
)
def test_labels_that_are_none_are_refused(options, labels, message, table):
    X, y = table
    with pytest.raises((TypeError, ValueError), match=message):
        GCMOrdinal(**SMALL, **options).fit(X, list(y) if labels is None else labels)
