"""Bands, required values, explanations and curves of monotone estimators."""

import numpy as np
import pandas as pd
import pytest
from loans import loans
from sklearn.pipeline import make_pipeline
from statsmodels.stats.proportion import proportion_confint

from pyro_gcm import load, save
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier, GCMRegressor

DIRECTIONS = {"income": -1, "debt": 1, "grade": 1}
OPTIONS = {"monotonic_cst": DIRECTIONS, "epochs": 8, "hidden": 16, "members": 4}


TABLE = loans(300)
NUMBERS = 3.0 * (TABLE[1] == "yes") + np.random.default_rng(1).normal(size=300)


@pytest.fixture(scope="module")
def classifier():
    return GCMClassifier(**OPTIONS).fit(*TABLE)


@pytest.fixture(scope="module")
def regressor():
    return GCMRegressor(**OPTIONS).fit(TABLE[0], NUMBERS)


@pytest.mark.filterwarnings("ignore:.*beyond the training rows")
@pytest.mark.parametrize("feature", ["income", "debt", "grade"])
def test_required_values_do_what_was_asked(classifier, feature):
    X = TABLE[0][:20].reset_index(drop=True)
    for probability, below in ((0.1, False), (0.1, True), (0.5, False), (0.5, True)):
        found = classifier.required(X, feature, probability, below=below)
        value = found["required"]
        there = value.notna() if feature == "grade" else np.isfinite(value)
        assert there.sum() > 1
        asked = X[there].assign(**{feature: value[there]})
        if feature == "grade":
            asked["grade"] = asked["grade"].astype(X["grade"].dtype)
        p = classifier.predict_proba(asked)[:, 1]
        assert ((p < probability) if below else (p >= probability)).all()
        if feature == "grade":
            continue
        alone = [
            classifier.required(X[i : i + 1], feature, probability, below=below) for i in (0, 1)
        ]
        pd.testing.assert_frame_equal(found[:2], pd.concat(alone))
        # A hair further it does not.
        side = np.inf * DIRECTIONS[feature] * (1 if below else -1)
        other = np.nextafter(value[there].astype(np.float32), np.float32(side)).astype(float)
        p = classifier.predict_proba(asked.assign(**{feature: other}))[:, 1]
        assert ((p >= probability) if below else (p < probability)).mean() > 0.5
        assert (found["lower"] <= found["upper"]).all()
        assert (found["lower"] <= value).mean() > 0.8
        # There an end of the band of predictions is what was asked.
        for end, other in (("lower", "upper"), ("upper", "lower")):
            there = np.isfinite(found[end])
            assert there.any() or probability < 0.5
            at = X.assign(**{feature: found[end].where(there, 0.0)})
            band = getattr(classifier.predict_bands(at), (end, other)[DIRECTIONS[feature] > 0])
            np.testing.assert_allclose(band[there], probability, atol=1e-3)


def test_required_values_beyond_the_training_rows_are_told(classifier):
    X = TABLE[0][:30]
    with pytest.warns(UserWarning, match="'debt': .* of 30 required values are beyond") as told:
        found = classifier.required(X, "debt", 0.999)
    assert told[0].filename == __file__
    assert found["beyond"].any()
    assert list(found.index) == list(X.index)


def test_both_ends_of_a_band_are_monotone_and_are_an_interval_of_a_share(classifier):
    X = TABLE[0]
    row = X[X["debt"].notna() & X["income"].notna()][:1]
    for feature, sign in (("debt", 1), ("income", -1)):
        grid = np.sort(X[feature].dropna())
        rows = pd.concat([row] * len(grid)).assign(**{feature: grid})
        p, bands = classifier.predict_proba(rows)[:, 1], classifier.predict_bands(rows, level=0.8)
        for line in (bands.lower, bands.upper):
            assert (sign * np.diff(line) >= 0).all()
        assert (bands.lower < p).all()
        assert (p < bands.upper).all()
    wanted = proportion_confint(p * bands.rows, bands.rows, alpha=0.2, method="wilson")
    np.testing.assert_allclose([bands.lower, bands.upper], wanted, rtol=1e-9)


def test_bands_hold_the_truth():
    """In nine of ten rows; over 200 simulations of these truths they held .87 or more."""
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(1000, 3)), rng.normal(size=(2000, 3))
    cst = [1, 0, 0]

    def mean(x):
        return x[:, 0] + np.sin(2.0 * x[:, 1])

    def shares(x):
        return 1.0 / (1.0 + np.exp(-mean(x)))

    cases = (
        (GCMClassifier(monotonic_cst=cst), rng.random(1000) < shares(x), shares(new)),
        (GCMRegressor(monotonic_cst=cst), mean(x) + rng.normal(size=1000), mean(new)),
    )
    for model, y, truth in cases:
        bands = model.fit(x, y).predict_bands(new)
        inside = (bands.lower <= truth) & (truth <= bands.upper)
        assert inside.mean() > 0.75, type(model)
        assert bands.rows < 1000**0.5 / 1.5 + 1e-9


def test_an_explanation_is_bayes_rule_for_the_cost_of_a_column(classifier):
    X = TABLE[0].dropna()[:8]
    found = classifier.explain(X, level=0.8)
    assert len(found) == 8 * 3
    p = classifier.predict_proba(X)[:, 1]
    for row in range(8):
        mine = found[(found["row"] == row) & (found["feature"] == "debt")].iloc[0]
        assert mine["probability"] == p[row]
        assert mine["outcome"] == (p[row] >= 0.5)
        at = X.iloc[[row]]
        ends = [X["debt"].min(), mine["value"], X["debt"].max()]
        assert ends[0] <= mine["value"] <= ends[2]
        if not np.isfinite(mine["cost"]):
            continue
        at_cost = classifier.predict_proba(at.assign(debt=mine["cost"]))[0, 1]
        median = at_cost / p[row] if mine["outcome"] else (at_cost - p[row]) / (1 - p[row])
        assert median == pytest.approx(0.5, abs=0.02)
        assert mine["lower"] <= mine["cost"] <= mine["upper"]
    assert found["flip_probability"].between(0, 1).all()


def test_the_cost_of_a_column_is_what_a_simulation_finds():
    """With one revenue the event is c < h(r), and its cost a truncated logistic, say."""
    rng = np.random.default_rng(0)
    r = rng.uniform(0, 10, 4000)
    cost = 5 + rng.logistic(size=4000)
    X, y = pd.DataFrame({"r": r}), (cost < r).astype(int)
    model = GCMClassifier(monotonic_cst=[1], epochs=20, members=2).fit(X, y)
    found = model.explain(pd.DataFrame({"r": [4.0, 6.0]}), level=0.5)
    above = cost[(r < 4.2) & (r > 3.8) & (y == 0)]
    below = cost[(r < 6.2) & (r > 5.8) & (y == 1)]
    for row, costs in ((0, above), (1, below)):
        lower, middle, upper = np.quantile(costs, [0.25, 0.5, 0.75])
        mine = found.iloc[row]
        assert mine["lower"] == pytest.approx(lower, abs=0.4)
        assert mine["cost"] == pytest.approx(middle, abs=0.4)
        assert mine["upper"] == pytest.approx(upper, abs=0.4)


def test_curves_rise_in_units_of_the_column(classifier):
    X = TABLE[0]
    curve = classifier.response_curve(X, "income")
    assert list(curve) == ["income", "prediction", "lower", "upper"]
    assert (curve["prediction"].diff().dropna() <= 0).all()
    assert curve["income"].between(X["income"].min(), X["income"].max()).all()
    assert curve["lower"].le(curve["prediction"]).all()
    grades = classifier.response_curve(X, "grade")
    assert grades["grade"].tolist() == ["A", "B", "C"]
    assert grades["prediction"].is_monotonic_increasing
    value = classifier.predict_proba(X.assign(debt=20.0))[:, 1].mean()
    assert classifier.response_curve(X, "debt", [20.0])["prediction"][0] == pytest.approx(value)


@pytest.mark.filterwarnings("ignore:column 'job' has in")
@pytest.mark.parametrize("estimator", ["classifier", "regressor"])
def test_no_fall_with_missing_and_unseen_values(estimator, request, tmp_path):
    model = request.getfixturevalue(estimator)
    save(model, tmp_path / "saved")
    X = TABLE[0].copy()
    X.loc[::3, "job"] = "unseen"
    X.loc[::5, "years"] = np.nan
    X.loc[::6, ["income", "debt"]] = np.nan
    for audited in (model, load(tmp_path / "saved"), make_pipeline("passthrough", model)):
        options = {"pairs": 3000, "searches": ["random", "grid"], "tolerance": 0.0}
        audit = audit_table(audited, X, DIRECTIONS, **options)
        assert audit.passed, audit.summary()


@pytest.mark.parametrize("below", [True, False])
def test_reasons_name_a_value_that_does_what_was_asked(classifier, below):
    X, limit = TABLE[0][:60], 0.3 if below else 0.7
    found = classifier.reasons(X, limit, below=below, count=2)
    p = classifier.predict_proba(X)[:, classifier.event_column_]
    refused = np.flatnonzero(p >= limit if below else p < limit)
    assert set(found["row"]) <= set(refused)
    assert found.groupby("row").size().max() == 2
    assert (found.groupby("row")["gain"].diff().dropna() <= 0.0).all()
    assert found["possible"].any()
    for reason in found[found["possible"]].itertuples():
        moved = X.iloc[[reason.row]].copy()
        moved[reason.feature] = reason.required
        if reason.feature == "grade":
            moved["grade"] = pd.Categorical(moved["grade"], X["grade"].cat.categories, ordered=True)
        reached = classifier.predict_proba(moved)[0, classifier.event_column_]
        assert reached < limit if below else reached >= limit
        assert f"{reason.feature} is " in reason.text
        assert (
            f"the probability would be {'below' if below else 'at least'} {limit:g}" in reason.text
        )
    beyond = found[~found["possible"]]
    assert beyond["text"].str.contains("in the training rows").all()


def test_reasons_and_explanations_need_what_they_are_about(classifier, regressor):
    X, y = TABLE
    assert classifier.reasons(X[:5], 0.999999, below=True).empty
    explained = regressor.explain(X.dropna()[:5], above=1.0)
    assert np.isfinite(explained.loc[explained["feature"] == "debt", "cost"].astype(float)).any()
    with pytest.raises(ValueError, match="above must be the number that y has to exceed"):
        regressor.explain(X)
    assert regressor.reasons(X[:5], 1.5)["text"].str.contains("the prediction would be").all()
    with pytest.raises(ValueError, match="count must be an integer of at least 1, got 0"):
        classifier.reasons(X, 0.2, count=0)
    free = GCMClassifier(epochs=1, members=2, hidden=4).fit(X, y)
    with pytest.raises(ValueError, match="X must have a column with a direction"):
        free.reasons(X, 0.2)
