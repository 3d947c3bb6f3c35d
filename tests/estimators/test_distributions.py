"""`GCMRegressor` asked for the distribution of y, with both of its responses."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import pyro_gcm
from pyro_gcm.estimators import GCMRegressor, regressor

SMALL = {"monotonic_cst": {"size": 1}, "epochs": 3, "hidden": 8, "members": 2}
RESPONSES = ("continuous", "distribution")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(0, 4, 300), "kind": rng.choice(list("ab"), 300)})
    return X, (X["size"] + 1) * rng.gamma(2.0, size=300)


@pytest.fixture(scope="module", params=RESPONSES)
def model(request, table):
    return GCMRegressor(**SMALL, response=request.param).fit(*table)


def test_answers_are_those_of_the_model(model, table):
    """Whose numbers are compared with draws in the tests of models."""
    X, y = table[0][:9], table[1][:9]
    at = torch.tensor(y.to_numpy())
    rows, of = model._rows(X), model.model_
    p_y = of.predictive(*rows)
    for found, wanted in (
        (model.predict_quantiles(X, [0.05, 0.5]), p_y.quantile([0.05, 0.5])),
        (model.predict_interval(X, 0.9), model.predict_quantiles(X, [0.05, 0.95])),
        (model.cdf(X, [1.0, 5.0])[:, 1], p_y.cdf(torch.full((9,), 5.0))),
        (
            model.cdf(X, y.to_numpy()[:, None])[:, 0],
            p_y.cdf(at),
        ),
        (model.crps(X, y), p_y.crps(at)),
        (model.log_prob(X, y), of.log_prob(*rows, at)),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    draws = model.sample(X, 200, random_state=1)
    assert draws.shape == (200, 9)
    assert (draws == model.sample(X, 200, random_state=1)).all()
    np.testing.assert_allclose(draws.mean(), model.predict(X).mean(), rtol=0.2)


def test_a_whole_distribution_follows_a_skewed_y(table):
    X, y = table
    skewed = GCMRegressor(**{**SMALL, "epochs": 12}, response="distribution").fit(X, y)
    low, middle, high = skewed.predict_quantiles(X[:60], [0.1, 0.5, 0.9]).T
    assert ((high - middle) > 1.3 * (middle - low)).mean() > 0.9


def test_the_response_that_is_better_for_the_rows_is_taken(table, tmp_path):
    X, y = table
    chosen = GCMRegressor(**{**SMALL, "epochs": 6}).fit(X, y)
    assert chosen.response_ == "distribution"
    named = GCMRegressor(**{**SMALL, "epochs": 6}, response="distribution").fit(X, y)
    np.testing.assert_array_equal(chosen.predict(X), named.predict(X))
    pyro_gcm.save(chosen, tmp_path / "model")
    loaded = pyro_gcm.load(tmp_path / "model")
    assert (loaded.response, loaded.response_) == ("auto", "distribution")
    assert clone(loaded).response == "auto"
    again = loaded.set_params(warm_start=True, epochs=1).fit(X, np.sqrt(y))
    assert again.response_ == "distribution"


@pytest.mark.parametrize("of", ["a sum", "few rows"])
def test_a_y_without_a_sign_of_another_shape_is_continuous_at_once(of, table, monkeypatch):
    X, y = table
    rng = np.random.default_rng(0)
    y = X["size"] + rng.normal(size=300) if of == "a sum" else y
    X, y = (X[:90], y[:90]) if of == "few rows" else (X, y)
    monkeypatch.setattr(regressor, "fit", None)
    assert GCMRegressor(**SMALL).fit(X, y).response_ == "continuous"


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
