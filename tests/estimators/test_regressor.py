"""`GCMRegressor`: the distribution of y, with both of its responses, and intervals that cover."""

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import pyro_gcm
from pyro_gcm.estimators import GCMRegressor, IGCMRegressor, estimator

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
        (model.cdf(X, y.to_numpy()[:, None])[:, 0], p_y.cdf(at)),
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


def test_the_response_that_is_better_for_the_rows_is_taken(table, tmp_path, monkeypatch):
    """The gap of CRPS is about three standard errors, and one against it would not do."""
    X, y = table
    trainings = Mock(wraps=estimator.trained)
    monkeypatch.setattr(estimator, "trained", trainings)
    chosen = GCMRegressor(**{**SMALL, "epochs": None}).fit(X, y)
    assert chosen.response_ == "distribution"
    assert trainings.call_count == 2  # of which one is kept
    named = GCMRegressor(**{**SMALL, "epochs": None}, response="distribution").fit(X, y)
    np.testing.assert_array_equal(chosen.predict(X), named.predict(X))
    pyro_gcm.save(chosen, tmp_path / "model")
    loaded = pyro_gcm.load(tmp_path / "model")
    assert (loaded.response, loaded.response_) == ("auto", "distribution")
    assert clone(loaded).response == "auto"


@pytest.mark.parametrize("of", ["a sum", "few rows"])
def test_a_y_without_a_sign_of_another_shape_is_continuous_at_once(of, table, monkeypatch):
    X, y = table
    rng = np.random.default_rng(0)
    y = X["size"] + rng.normal(size=300) if of == "a sum" else y
    X, y = (X[:90], y[:90]) if of == "few rows" else (X, y)
    trainings = Mock(wraps=estimator.trained)
    monkeypatch.setattr(estimator, "trained", trainings)
    assert GCMRegressor(**SMALL).fit(X, y).response_ == "continuous"
    trainings.assert_called_once()


def test_wrong_responses_values_and_levels_are_refused(model, table):
    X, y = table
    with pytest.raises(ValueError, match="response must be one of"):
        GCMRegressor(response="binary").fit(X, y)
    with pytest.raises(ValueError, match="levels must lie strictly"):
        model.predict_quantiles(X, [0.0, 0.5])
    with pytest.raises(ValueError, match="x has 300, y has 2"):
        model.cdf(X, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="x has 300, y has 5"):
        model.crps(X, y[:5])


# Intervals that hold the share of outcomes which is asked for, whatever the model

COVERING = dict(monotonic_cst={"dose": 1}, members=4, hidden=8, random_state=0, device="cpu")


def rows(count, seed, spread=lambda X: 1.0):
    """Outcomes with a spread that normal densities of one width do not have."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=count), "dose": rng.random(count)})
    noise = spread(X) * rng.standard_t(3, size=count)
    return X, X["age"].to_numpy() + 2 * X["dose"].to_numpy() + noise


@pytest.fixture(scope="module")
def fitted():
    return GCMRegressor(**COVERING, response="continuous").fit(*rows(600, 0))


def test_an_interval_covers_what_is_asked_for(fitted):
    X, y = rows(4000, 1)
    for coverage in (0.5, 0.8, 0.95):
        low, high = fitted.predict_interval(X, coverage=coverage).T
        assert ((low <= y) & (y <= high)).mean() == pytest.approx(coverage, abs=0.04)
        assert (low < high).all()


def test_an_interval_covers_quiet_and_noisy_rows_after_a_training_that_learned_half_of_it():
    """Over seeds the shares differ by .04 +- .055, and by .33 +- .02 with one group of rows."""

    def uneven(count, seed):
        X, rng = rows(count, seed)[0], np.random.default_rng(seed + 100)
        noise = np.where(X["age"] > 0.0, 2.0, 0.4) * rng.normal(size=count)
        return X, X["age"].to_numpy() + 2 * X["dose"].to_numpy() + noise

    more = dict(response="continuous", epochs=5, early_stopping=True)
    model, (X, y) = GCMRegressor(**COVERING, **more).fit(*uneven(1000, 0)), uneven(4000, 1)
    low, high = model.predict_interval(X, coverage=0.9).T
    inside, noisy = (low <= y) & (y <= high), X["age"] > 0.0
    assert inside[~noisy].mean() - inside[noisy].mean() == pytest.approx(0.0, abs=0.25)
    assert inside.mean() == pytest.approx(0.9, abs=0.1)  # whose standard deviation is .025


def test_both_ends_rise_with_the_revenue(fitted):
    X, _ = rows(2000, 2)
    more = X.assign(dose=X["dose"] + np.geomspace(1e-12, 1.0, len(X)))
    before, after = (fitted.predict_interval(table, coverage=0.9) for table in (X, more))
    assert (after >= before).all()


def test_weights_count_and_saved_intervals_stay(tmp_path):
    X, y = rows(200, 3)
    kept = np.arange(200) % 2 == 0
    whole = GCMRegressor(**COVERING, response="distribution").fit(X, y, kept.astype(float))
    half = GCMRegressor(**COVERING, response="distribution").fit(X[kept], y[kept])
    np.testing.assert_allclose(whole.ranks_, half.ranks_, rtol=1e-4)
    np.testing.assert_allclose(whole.spreads_, half.spreads_, rtol=1e-4)
    pyro_gcm.save(whole, tmp_path / "model")
    loaded = pyro_gcm.load(tmp_path / "model")
    wanted = whole.predict_interval(X, coverage=0.9)
    np.testing.assert_array_equal(loaded.predict_interval(X, coverage=0.9), wanted)


def test_coverage_needs_rows_that_members_left_out(fitted):
    X, y = rows(60, 4)
    for model in (
        GCMRegressor(**COVERING, epochs=1),
        IGCMRegressor(monotonic_cst={"dose": 1}, epochs=1),
    ):
        model.fit(X, y)
        with pytest.raises(ValueError, match="coverage needs predictions of rows that members"):
            model.predict_interval(X, coverage=0.9)
    with pytest.raises(ValueError, match="coverage must be"):
        fitted.predict_interval(X, coverage=1.5)
