"""`GCMRegressor` asked for the distribution of y, with both of its responses."""

import numpy as np
import pandas as pd
import pytest

import pyro_gcm
from pyro_gcm.estimators import GCMRegressor

SMALL = {"monotonic_cst": {"size": 1}, "epochs": 8, "hidden": 8, "members": 2}
RESPONSES = ("continuous", "distribution")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(0, 4, 300), "kind": rng.choice(list("ab"), 300)})
    return X, (X["size"] + 1) * rng.gamma(2.0, size=300)


@pytest.fixture(scope="module", params=RESPONSES)
def model(request, table):
    return GCMRegressor(**SMALL, response=request.param).fit(*table)


def test_quantiles_rise_with_their_level_and_with_the_column(model):
    X = pd.DataFrame({"size": np.linspace(0, 4, 40), "kind": ["a"] * 40})
    quantiles = model.predict_quantiles(X, [0.05, 0.3, 0.5, 0.95])
    assert quantiles.shape == (40, 4)
    assert (np.diff(quantiles, axis=0) >= 0).all()
    assert (np.diff(quantiles, axis=1) > 0).all()
    np.testing.assert_allclose(model.predict_interval(X, 0.9), quantiles[:, [0, 3]], rtol=1e-6)
    wide = model.cdf(X, [1.0, 5.0, 9.0])
    assert wide.shape == (40, 3)
    assert (np.diff(wide, axis=0) <= 0).all()
    np.testing.assert_allclose(model.cdf(X, quantiles[:, [1]]), 0.3, atol=1e-5)


def test_scores_are_those_of_the_quantiles_and_of_draws(model, table):
    X, y = table
    few, of_few = X[:20], y[:20]
    levels = np.linspace(0.02, 0.98, 25)
    gap = of_few.to_numpy()[:, None] - model.predict_quantiles(few, levels)
    pinball = 2.0 * np.maximum(levels * gap, (levels - 1.0) * gap).mean(1)
    np.testing.assert_allclose(model.crps(few, of_few).mean(), pinball.mean(), rtol=0.04)
    draws = model.sample(few, 200, random_state=1)
    assert draws.shape == (200, 20)
    assert (draws == model.sample(few, 200, random_state=1)).all()
    np.testing.assert_allclose(draws.mean(), model.predict(few).mean(), rtol=0.1)
    at = np.linspace(0.0, 30.0, 301)
    one = X.iloc[np.zeros(301, dtype=int)]
    density = np.exp(model.log_prob(one, at))
    mass = np.diff(model.cdf(X.iloc[:1], at[[0, -1]])[0])[0]
    np.testing.assert_allclose(density.sum() * 0.1, mass, rtol=0.02)


def test_a_saved_one_answers_alike(model, table, tmp_path):
    X, y = table
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "model"))
    assert loaded.response == model.response
    assert (loaded.predict_interval(X[:9]) == model.predict_interval(X[:9])).all()
    assert (loaded.log_prob(X, y) == model.log_prob(X, y)).all()


def test_a_whole_distribution_follows_a_skewed_y(table):
    X, y = table
    skewed = GCMRegressor(**{**SMALL, "epochs": 25}, response="distribution").fit(X, y)
    low, middle, high = skewed.predict_quantiles(X, [0.1, 0.5, 0.9]).T
    assert ((high - middle) > 1.3 * (middle - low)).mean() > 0.9


def test_wrong_responses_values_and_levels_are_refused(model, table):
    X, y = table
    with pytest.raises(ValueError, match="response must be one of"):
        GCMRegressor(response="binary").fit(X, y)
    with pytest.raises(ValueError, match="levels must lie strictly"):
        model.predict_quantiles(X, [0.0, 0.5])
    with pytest.raises(ValueError, match=r"values must be \[T\] or \[300, T\]"):
        model.cdf(X, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.crps(X, y[:5])
    other = {"continuous": "distribution", "distribution": "continuous"}[model.response]
    model.set_params(warm_start=True, response=other)
    with pytest.raises(ValueError, match="response must be that of the first fit"):
        model.fit(X, y)
