"""`GCMCounter`: exposures are a column of X that is no feature, and rates are monotone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from command_line import run

from pyro_gcm import load, save
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMCounter
from pyro_gcm.estimators.counter import poisson_deviance
from pyro_gcm.estimators.kinds import scores
from pyro_gcm.report import write_report
from pyro_gcm.report.counts import bands_of

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "speed": RNG.normal(size=200),
        "hours": RNG.uniform(0.2, 3.0, 200),
        "town": RNG.choice(["a", "b"], 200),
    }
)
Y = RNG.poisson(X["hours"] * np.exp(0.7 * X["speed"]))
SMALL = {"monotonic_cst": {"speed": 1}, "members": 2, "hidden": 8, "epochs": 4}


@pytest.fixture(scope="module")
def fitted():
    return GCMCounter(exposure="hours", **SMALL).fit(X, Y)


def test_counts_are_rates_over_exposures(fitted, tmp_path):
    rate, hours = fitted.predict_rate(X), X["hours"].to_numpy()
    assert [*fitted.feature_names_in_] == ["speed", "town"]
    np.testing.assert_array_equal(fitted.predict(X), rate * hours)
    np.testing.assert_array_equal(fitted.predict_rate(X.drop(columns="hours")), rate)
    twice = X.assign(hours=2.0 * hours)
    assert (fitted.predict_quantiles(twice) >= fitted.predict_quantiles(X)).all()
    assert (fitted.pmf(twice, [0]) < fitted.pmf(X, [0])).all()
    low, high = fitted.predict_interval(X, 0.9).T
    assert 0.85 < ((low <= Y) & (high >= Y)).mean() <= 1.0  # at least 0.9 but for noise
    p = fitted.pmf(X, np.arange(60.0))
    np.testing.assert_allclose(p[np.arange(200), Y], np.exp(fitted.log_prob(X, Y)), rtol=1e-4)
    np.testing.assert_allclose(p @ np.arange(60.0), fitted.predict(X), rtol=1e-3)
    known = fitted.predict_rate_given(X, Y)
    assert ((known > rate) == (fitted.predict(X) < Y))[(Y == 0) | (Y > 5)].all()
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.exposure == "hours"
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_the_rate_and_its_bands_are_monotone(fitted):
    assert audit_table(fitted.predict, X, {"speed": 1}, pairs=300, progress=False).passed
    rows = X[:1].loc[np.zeros(60, int)].assign(speed=np.linspace(-4.0, 4.0, 60))
    bands, rate = fitted.predict_bands(rows), fitted.predict_rate(rows)
    assert (np.diff(bands.lower) >= 0.0).all()
    assert (np.diff(bands.upper) >= 0.0).all()
    assert ((bands.lower >= 0.0) & (bands.lower <= rate) & (rate <= bands.upper)).all()
    needed = fitted.required(X[:4].drop(columns="hours"), "speed", float(rate[30]))["required"]
    assert (fitted.predict_rate(X[:4].assign(speed=needed)) >= rate[30]).all()


def test_the_score_is_the_share_of_the_deviance(fitted):
    from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

    ones = X.assign(hours=1.0)
    np.testing.assert_allclose(
        fitted.score(ones, Y), d2_tweedie_score(Y, fitted.predict(ones), power=1)
    )
    means = fitted.predict(X)
    wanted = mean_poisson_deviance(Y, means)
    np.testing.assert_allclose(poisson_deviance(Y, means).mean(), wanted)
    assert fitted.score(X, 0 * Y) == 0.0  # no event, nothing to explain


def test_the_exposure_is_found_by_its_index_in_arrays():
    array = X[["speed", "hours"]].to_numpy()
    options = {**SMALL, "monotonic_cst": [1], "epochs": 1}
    made = GCMCounter(exposure=1, **options).fit(array, Y)
    named = GCMCounter(exposure="hours", **options).fit(X[["speed", "hours"]], Y)
    np.testing.assert_array_equal(made.predict(array), named.predict(X[["hours", "speed"]]))
    np.testing.assert_array_equal(made.predict_rate(array[:, :1]), made.predict_rate(array))
    np.testing.assert_array_equal(  # after a fit to an array of another width
        GCMCounter(exposure=1, **{**options, "monotonic_cst": [1, 0]})
        .fit(np.c_[array, array[:, 0]], Y)
        .set_params(monotonic_cst=[1])
        .fit(array, Y)
        .predict(array),
        made.predict(array),
    )
    one = GCMCounter(**options).fit(array[:, :1], Y)
    np.testing.assert_array_equal(one.predict(array[:, :1]), one.predict_rate(array[:, :1]))


def test_wrong_exposures_and_counts_are_refused_by_name(fitted):
    minus = X.assign(hours=-1.0)
    calls = [
        (lambda: GCMCounter(exposure="days", **SMALL).fit(X, Y), "in column 'days'"),
        (lambda: GCMCounter(exposure="town", **SMALL).fit(X, Y), "in column 'town'"),
        (lambda: GCMCounter(exposure="hours", **SMALL).fit(minus, Y), "exposure must be above 0"),
        (
            lambda: GCMCounter(exposure="hours", **SMALL).fit(X, Y - 1),
            "whole numbers from 0, got -1",
        ),
        (lambda: fitted.predict(X.drop(columns="hours")), "X must have exposures, .* predict_rate"),
        (lambda: GCMCounter(exposure="hours", **SMALL).fit(X, Y[:9]), "inconsistent numbers"),
        (lambda: fitted.score(X, Y[:9]), "inconsistent numbers"),
        (lambda: GCMCounter(exposure="hours").fit(X[["hours"]], Y), "columns beside that of"),
        (lambda: fitted.pmf(X, [[1.0, 2.0]]), "counts must"),
        (lambda: fitted.predict_rate_given(X, Y - 1), "whole numbers from 0, got -1"),
        (lambda: fitted.predict(minus), "exposure must be above 0, got -1 in row 0"),
    ]
    for call, message in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_the_crps_is_the_sum_over_all_counts(fitted):
    n = np.arange(400.0)
    cdf = fitted.pmf(X, n).cumsum(1)
    wanted = ((cdf - (Y[:, None] <= n)) ** 2).sum(1)
    found = fitted.crps(X, Y)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert scores(fitted, X, Y)["crps"] == pytest.approx(found.mean())
    # Of many events, of which some stand for their neighbours: E|N - y| - E|N - N'| / 2.
    many = X[:3].assign(hours=[3e4, 1e5, 3e5])
    draws = fitted.model_.predictive(*fitted._rows(many), exposure=many["hours"].to_numpy())
    drawn = draws.sample(20_000, seed=1).numpy().astype(float)
    seen = drawn[-1]
    apart = np.abs(drawn[:10_000] - drawn[10_000:])
    mean = np.abs(drawn - seen).mean(0) - 0.5 * apart.mean(0)
    error = np.hypot(np.abs(drawn - seen).std(0) / 20_000**0.5, 0.5 * apart.std(0) / 100.0)
    assert (np.abs(fitted.crps(many, seen) - mean) < 5.0 * error).all()


def test_the_report_has_rates_and_bands_of_about_equal_exposure(fitted, tmp_path):
    bands = bands_of(fitted.predict_rate(X), Y.astype(float), X["hours"].to_numpy())
    assert len(bands) == 10
    assert (bands["exposure"] / X["hours"].sum()).between(0.05, 0.15).all()
    assert bands["predicted"].is_monotonic_increasing
    np.testing.assert_allclose(bands["observed"] * bands["exposure"], bands["events"])
    assert bands[["events", "rows"]].sum().tolist() == [Y.sum(), len(X)]
    options = {"path": tmp_path / "report.html", "pairs": 200, "target": "claims"}
    written = write_report(fitted, X, Y, **options, progress=False)
    assert set(written.scores) == {"d2", "log_score", "crps"}
    text = written.path.read_text()
    for part in ("rate of “claims”, the mean number in one unit of “hours”", "CRPS", "deviance"):
        assert part in text
    assert len(bands_of(np.ones(200), Y.astype(float), np.ones(200))) == 1
    without = write_report(fitted, X, **options, progress=False)
    assert without.scores == {}


def test_an_exposure_of_text_is_refused_before_any_work(tmp_path):
    data = tmp_path / "data.csv"
    X.assign(claims=Y).to_csv(data, index=False)
    for column, message in (("town", "must have numbers, and has text"), ("speed", "above 0")):
        asked = ["fit", data, "--target", "claims", "--exposure", column, "--out", tmp_path / "a"]
        error = run(*asked).err
        assert f"--exposure '{column}'" in error
        assert message in error
    fit = ["fit", data, "--target", "claims", "--exposure", "hours", "--increasing", "speed"]
    run(*fit, "--out", tmp_path / "a", "--epochs", 1, "--members", 2, "--quiet")
    made = run("report", tmp_path / "a", data, "--out", tmp_path / "a.html", "--json", "--quiet")
    assert set(made.json["scores"]) == {"d2", "log_score", "crps"}
