"""`GCMOrdinal` and `GCMSurvival`: orders of levels, curves of times, and what is monotone."""

import warnings

import numpy as np
import pandas as pd
import pytest
from loans import loans

from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.estimators import GCMOrdinal, GCMSurvival
from pyro_gcm.estimators.survival import harrell_concordance

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
    assert places == (1.0 - above < 0.5).sum(1).tolist()  # where a half is reached
    np.testing.assert_allclose(above.sum(1), model.predict_mean(X), atol=1e-5)
    np.testing.assert_allclose(
        above, model.predict_proba(X)[:, ::-1].cumsum(1)[:, -2::-1], atol=1e-6
    )


def test_questions_of_levels(table, model):
    X, _ = table
    explained = model.explain(X[:5], above="fair")
    np.testing.assert_allclose(explained["probability"], model.predict_cumulative(X[:5])[:, 1])
    with pytest.raises(ValueError, match="above must be a level below the highest"):
        model.explain(X[:5], above="fine")


def test_labels_that_are_none_are_refused(table):
    for options, labels, message in (
        ({"levels": ["poor", "good"]}, None, "y must have labels among levels"),
        ({"levels": ["poor", "poor"]}, None, "levels must be two or more different labels"),
        ({"levels": "poor"}, None, "levels must be a list"),
        ({}, ["poor"] * 240, "at least two classes, got one class"),
        ({}, np.linspace(0.0, 1.0, 240), "continuous"),
    ):
        X, y = table
        with pytest.raises((TypeError, ValueError), match=message):
            GCMOrdinal(**SMALL, **options).fit(X, list(y) if labels is None else labels)


# Times


DIRECTIONS = {"income": -1, "debt": 1, "grade": 1}
OPTIONS = {"monotonic_cst": DIRECTIONS, "members": 2, "hidden": 8, "epochs": 3}


def times(rows: int, seed: int = 0):
    """Rows, events and times: the event comes earlier with debt, later with income."""
    X, _ = loans(rows, seed)
    rng = np.random.default_rng(seed)
    scale = np.exp(0.03 * X["debt"].fillna(25.0) - 0.4 * np.log(X["income"].fillna(2e4)) + 4.0)
    event, censored = rng.exponential(size=rows) / scale * 100.0, rng.uniform(10.0, 300.0, rows)
    came = (event <= censored).to_numpy()
    return X, came, np.minimum(event, censored).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    X, came, time = times(240)
    return GCMSurvival(**OPTIONS, horizon=50.0).fit(X, (came, time)), X, came, time


def cured_times(rows):
    """Two columns, which rows are seen to have the event, and when; the truth of the first one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    never = 1.0 / (1.0 + np.exp(0.5 - X[:, 0]))
    time, seen = np.exp(-0.5 * X[:, 1]) * rng.exponential(size=rows), rng.uniform(2.0, 12.0, rows)
    time[rng.random(rows) < never] = np.inf
    return X, (time <= seen, np.minimum(time, seen)), never


def test_curves_end_at_the_cured_fraction():
    X, y, _ = cured_times(200)
    model = GCMSurvival(monotonic_cst=[0, 1], cured="conditional", epochs=1, members=2).fit(X, y)
    found = model.predict_cured(X[:9])
    late = model.predict_survival_function(X[:9], True, times=[1e200])[:, 0]
    assert late == pytest.approx(found, abs=1e-6)
    draws = model.sample_times(X[:9], num_samples=2000)
    assert np.isinf(draws).mean(0) == pytest.approx(found, abs=0.06)
    one = GCMSurvival(cured="constant", epochs=1, members=2).fit(X, y)
    curve = kaplan_meier(SurvivalTimes.right_censored(y[1], y[0]))["survival"]
    assert one.predict_cured(X)[0] == pytest.approx(curve.iloc[-1], abs=0.05)  # where it starts
    assert model.get_params()["cured"] == "conditional"
    assert not GCMSurvival(epochs=1, members=2).fit(X, y).predict_cured(X).any()
    with pytest.raises(ValueError, match="cured must be one of"):
        GCMSurvival(cured="some").fit(X, y)


def test_curves_fall_in_time_and_with_every_risk(fitted):
    model, X, _, _ = fitted
    worse = X.assign(debt=X["debt"] + 5.0, income=X["income"] * 0.5)
    both = X.notna().all(axis=1).to_numpy()
    at = np.linspace(1.0, 400.0, 30)
    here, there = (
        model.predict_survival_function(rows, return_array=True, times=at) for rows in (X, worse)
    )
    assert (np.diff(here, axis=1) < 0.0).all()
    assert (there[both] < here[both]).all()
    assert (model.predict_median(worse)[both] < model.predict_median(X)[both]).all()
    assert (model.predict(worse)[both] > model.predict(X)[both]).all()


def test_curves_can_be_called_and_agree_with_the_risk_and_the_quantiles(fitted):
    model, X, _, _ = fitted
    rows = X[:4]
    curves = model.predict_survival_function(rows, times=[25.0, 50.0, 75.0])
    for curve, risk in zip(curves, model.predict(rows), strict=True):
        assert curve(50.0) == pytest.approx(1.0 - risk, abs=1e-6)
        assert curve(0.0) == 1.0
        assert curve(37.5) == pytest.approx(0.5 * (curve(25.0) + curve(50.0)))
        with pytest.raises(ValueError, match=r"time must lie in \[0, 75\].*name later times"):
            curve([1.0, 76.0])
    assert model.predict_survival_function(rows)[0].x[-1] == model.unique_times_[-1]
    quantiles = model.predict_quantile(rows, [0.2, 0.5])
    for row, of_row in enumerate(quantiles):
        curve = model.predict_survival_function(rows[row : row + 1], times=of_row)[0]
        assert curve.y == pytest.approx([0.8, 0.5], abs=1e-5)


def test_draws_of_times_agree_with_what_was_seen(fitted):
    model, X, _, _ = fitted
    rows = X[:3]
    free = model.sample_times(rows, num_samples=1500)
    assert np.median(free, axis=0) == pytest.approx(model.predict_median(rows), rel=0.1)
    seen = SurvivalTimes([30.0, 20.0, 7.0], [np.inf, 40.0, 7.0])
    draws = model.sample_times(rows, seen, num_samples=1500)
    assert (draws[:, 0] > 30.0).all()
    assert ((draws[:, 1] > 20.0) & (draws[:, 1] <= 40.0)).all()
    assert draws[:, 2] == pytest.approx(7.0, rel=1e-5)
    after = model.predict_survival_function(rows[:1], times=[30.0, 60.0])[0]
    assert (draws[:, 0] > 60.0).mean() == pytest.approx(after(60.0) / after(30.0), abs=0.05)


def test_a_table_without_directions_and_interval_censored_times():
    X, _, time = times(120)
    y = SurvivalTimes(0.5 * time, 1.5 * time)
    model = GCMSurvival(members=2, hidden=8, epochs=2).fit(X[["debt", "job"]], y)
    curve = model.predict_survival_function(X[["debt", "job"]], return_array=True)
    assert curve.shape == (120, len(model.unique_times_))
    with pytest.raises(ValueError, match="exact and right-censored"):
        model.score(X[["debt", "job"]], y)


def test_weights_count_and_the_event_is_fixed(fitted):
    model, X, came, time = fitted
    late = GCMSurvival(**OPTIONS).fit(X, (came, time), sample_weight=np.where(time > 50, 9.0, 1.0))
    assert (late.predict_median(X) > model.predict_median(X)).mean() > 0.9
    with pytest.raises(ValueError, match="above is for regressors"):
        late.explain(X, above=1.0)


def test_epochs_are_those_that_are_best_for_rows_left_out(fitted):
    _, X, came, time = fitted
    options = {**OPTIONS, "epochs": None}
    X, came, time = X[:40], came[:40], time[:40]
    model = GCMSurvival(**options).fit(X, (came, time))
    assert 1 <= model.n_iter_ <= 21
    assert model.score(X, (came, time)) > 0.6


def test_concordance_against_all_pairs():
    rng = np.random.default_rng(0)
    time, event = rng.integers(1, 12, 60).astype(float), rng.random(60) < 0.6
    risk, weight = rng.integers(0, 8, 60).astype(float), rng.random(60)
    right = total = 0.0
    for i in range(60):
        for j in range(60):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                share = 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
                right += weight[i] * weight[j] * share
                total += weight[i] * weight[j]
    assert harrell_concordance(time, event, risk, weight) == pytest.approx(right / total)
    with pytest.raises(ValueError, match="y must have a row whose event occurred before"):
        harrell_concordance(time, np.zeros(60, bool), risk)
