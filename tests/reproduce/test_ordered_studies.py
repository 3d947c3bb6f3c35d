"""Ordered levels, whole distributions and survival: data, scores and rivals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from reproduce.curves import distribution, intervals, ordinal, survival
from reproduce.curves.distribution import METHODS as OF_NUMBERS
from reproduce.curves.distribution import Predicted
from reproduce.curves.ordinal import METHODS as OF_LEVELS
from reproduce.data.ordered_data import Table, simulated, split
from reproduce.runs import Fit

# The data.


@pytest.mark.parametrize(
    ("name", "rows", "free", "rising", "levels"),
    [
        ("anes96", 944, 5, 1, 7),
        ("fair", 6366, 16, 2, 5),
        ("esl", 488, 0, 4, 9),
        ("swd", 1000, 0, 10, 4),
        ("diabetes", 442, 7, 3, 0),
        ("engel", 235, 0, 1, 0),
    ],
)
def test_a_split_has_every_row_once(name, rows, free, rising, levels):
    if name in ("esl", "swd"):
        pytest.importorskip("skordinal")
    learn, test = split(name, 0, 0)
    assert len(test) == rows // 5
    assert len(learn) + len(test) == rows
    assert (learn.x.shape[1], learn.r.shape[1], learn.levels) == (free, rising, levels)
    again, _ = split(name, 0, 0)
    assert (again.columns == learn.columns).all()
    assert (split(name, 1, 0)[1].columns != test.columns).any()
    if levels:
        assert set(np.unique(learn.y)) <= set(range(levels))


def test_a_simulated_truth_is_that_of_its_rows():
    made = simulated(0, 600, seed=0)
    assert made.truth is not None
    assert abs(np.diag(made.truth(made.y)).mean() - 0.5) < 0.05
    levels = simulated(5, 4000, seed=0)
    below = levels.truth(np.arange(4))
    for k in range(4):
        assert abs(below[:, k].mean() - (levels.y <= k).mean()) < 0.03
    raised = Table(made.x, made.r + 1.0, made.y)
    assert raised.directions == [0, 0, 0, 1, 1]


# Scores.


def test_scores_of_levels():
    test = Table(np.empty((2, 0)), np.zeros((2, 1)), np.array([0.0, 2.0]), 3)
    found = ordinal.scores(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]), test, test)
    assert found["log score"] == pytest.approx((np.log(0.5) + np.log(0.8)) / 2)
    assert found["RPS"] == pytest.approx((0.5**2 + 0.25**2 + 0.1**2 + 0.2**2) / 2)
    assert found["error of the median"] == 0.0
    assert found["crossings"] == 0.0
    crossed = ordinal.scores(np.array([[0.5, -0.1, 0.6], [0.1, 0.1, 0.8]]), test, test)
    assert crossed["crossings"] == 0.5
    assert crossed["log score"] < found["log score"]


def test_scores_of_distributions():
    y = norm.ppf((np.arange(400) + 0.5) / 400)
    rows = Table(np.empty((400, 0)), np.zeros((400, 1)), y, truth=lambda t: norm.cdf(t)[None])
    curves = (lambda t: np.tile(norm.cdf(t), (400, 1))), lambda p: np.tile(norm.ppf(p), (400, 1))
    found = distribution.scores(Predicted(*curves), rows, rows)
    assert found["CRPS"] == pytest.approx(1.0 / np.sqrt(np.pi), rel=0.01)  # E|Y - Y'| / 2
    assert found["coverage 80%"] == pytest.approx(0.8, abs=0.01)
    assert found["width 50%"] == pytest.approx(2.0 * norm.ppf(0.75))
    assert found["mean |F - F0|"] == 0.0
    assert "log score" not in found


def test_scores_of_intervals():
    """The ends are -1 and 1, or the other way round; y is 3 in one of two rows."""
    rows = Table(np.empty((2, 0)), np.zeros((2, 1)), np.array([0.0, 3.0]))
    found = intervals.scores(np.tile([1.0, -1.0], (2, 1)), rows, rows)
    assert found["coverage"] == 0.5
    assert found["width"] == pytest.approx(2.0 / 1.5)  # in standard deviations of y
    assert found["interval score"] == pytest.approx((2.0 + 20.0 * 2.0 / 2) / 1.5)


# Methods.


@pytest.mark.parametrize("name", [n for n in OF_LEVELS if n not in ("Members", "GCM")])
def test_a_rival_of_levels_learns(name):
    learn, test = simulated(3, 250, seed=0), simulated(3, 200, seed=1)
    probability = OF_LEVELS[name](learn, 0)(test)
    np.testing.assert_allclose(probability.sum(1), 1.0, atol=1e-6)
    found = ordinal.scores(probability, learn, test)
    better = (
        found["RPS"] - ordinal.scores(OF_LEVELS["Frequencies"](learn, 0)(test), learn, test)["RPS"]
    )
    assert better == 0.0 if name == "Frequencies" else better < -0.03


@pytest.mark.parametrize("name", [*intervals.METHODS][1:])  # the first two are one model
def test_a_method_of_intervals_holds_most_of_the_outcomes(name):
    pytest.importorskip(
        {"MAPIE": "mapie", "NGBoost": "ngboost"}.get(name.split(",")[0], "lightgbm")
    )
    learn, test = simulated(0, 150, seed=0), simulated(0, 100, seed=1)
    low, high = intervals.METHODS[name](learn, 0)(test).T
    assert ((low <= test.y) & (test.y <= high)).mean() > 0.6


RIVALS = ("NGBoost, normal", "LightGBM quantiles", "Isotonic on monotone boosting", "Linear normal")


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_of_distributions_is_one(name):
    pytest.importorskip({"NGBoost, normal": "ngboost"}.get(name, "lightgbm"))
    learn, test = simulated(0, 120, seed=0), simulated(0, 60, seed=1)
    predicted = OF_NUMBERS[name](learn, 0)(test)
    values = np.linspace(-5.0, 40.0, 91)
    below = predicted.cdf(values)
    assert below.shape == (60, 91)
    assert (np.diff(below, axis=1) >= 0.0).all()
    assert (below[:, -1] > 0.99).all()
    quantiles = predicted.quantiles(np.array([0.25, 0.5, 0.75]))
    assert (np.diff(quantiles, axis=1) >= 0.0).all()
    at_median = np.diag(predicted.cdf(quantiles[:, 1]))
    assert (at_median >= 0.49).all()
    assert distribution.scores(predicted, learn, test)["CRPS"] < 1.2


@pytest.mark.parametrize("method", [*survival.RIVALS, survival.ONE_CURVE])
def test_a_rival_of_survival_has_curves_that_fall_sooner_where_the_risk_is_higher(method):
    pytest.importorskip("sksurv")
    rng = np.random.default_rng(0)
    columns = pd.DataFrame({"dose": rng.normal(size=300), "arm": pd.Categorical(["a", "b"] * 150)})
    y = np.empty(300, dtype=[("event", "?"), ("time", "f8")])
    y["time"], y["event"] = rng.exponential(np.exp(-2.0 * columns["dose"])), rng.random(300) < 0.8
    fit = Fit("survival", "any", "default", "5-fold", "0.0", 0, method, "{}")
    risk, curves = survival.predicted(fit, columns[:200], y[:200], columns[200:], "cpu")
    found = curves(np.array([0.0, *np.quantile(y["time"], [0.1, 0.5, 0.9]), 1e9]))
    assert risk.shape == (100,)
    assert found.shape == (100, 5)
    assert (found[:, 0] == 1.0).all()
    assert (np.diff(found) <= 0.0).all()
    if method == survival.ONE_CURVE:
        assert (found == found[0]).all()
    else:
        for higher in (risk, columns["dose"][200:]):
            assert np.corrcoef(higher, found[:, 2])[0, 1] < -0.5
