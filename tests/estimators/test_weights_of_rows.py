"""Weights of rows: whole numbers are counts, all others are relative."""

import numpy as np
import pandas as pd
import pytest
from loans import loans

from pyro_gcm.estimators import (
    GCMClassifier,
    GCMOrdinal,
    GCMRegressor,
    GCMSurvival,
    IGCMClassifier,
)
from pyro_gcm.estimators.kinds import monotone_prediction

SMALL = {"monotonic_cst": {"income": -1, "debt": 1}, "hidden": 4, "epochs": 1, "batch_size": 8}
#: Name -> an estimator, and its y from labels "no" and "yes" and from times.
CASES = {
    "classifier": (GCMClassifier(**SMALL, members=4, early_stopping=True), lambda y, t: y),
    "balanced": (GCMClassifier(**SMALL, members=2, class_weight="balanced"), lambda y, t: y),
    "bootstrap": (GCMClassifier(**SMALL, members=2, bootstrap=1), lambda y, t: y),
    "regressor": (GCMRegressor(**SMALL, members=4, early_stopping=True), lambda y, t: t),
    "levels": (GCMOrdinal(**SMALL, members=2), lambda y, t: np.digitize(t, [0.5, 1.5])),
    "times": (GCMSurvival(**SMALL, members=2), lambda y, t: np.stack([y == "yes", t], 1)),
    "implicit": (IGCMClassifier(**SMALL), lambda y, t: y),
}


def rows():
    """X, y, times and whole weights of 24 rows; those of weight 0 are like no others."""
    rng = np.random.default_rng(0)
    X, y = loans(24)
    weight = np.arange(24) % 5
    rng.shuffle(weight)
    never = weight == 0
    X.loc[never, "income"], X.loc[never, "job"] = 1e9, "pilot"
    return X, y, np.where(never, 1e6, rng.exponential(size=24)), weight


def answers(case, index, weight):
    """Predictions of six rows by a fit to the rows `index` with weights."""
    estimator, outcome = CASES[case]
    X, y, times, _ = rows()
    model = estimator.fit(X.iloc[index], outcome(y, times)[index], sample_weight=weight)
    new = loans(6, seed=1)[0]
    if model.bootstrap:
        return model.predict_bands(new).draws
    if case == "times":
        return np.stack([model.predict(new), model.predict_median(new)])
    return monotone_prediction(model, new)


@pytest.mark.filterwarnings("ignore:training ended with a loss", "ignore:members need 20 rows")
@pytest.mark.parametrize("case", CASES)
def test_whole_weights_are_rows_that_are_repeated(case):
    weight, every = rows()[-1], np.arange(24)
    counted = answers(case, every, weight)
    assert np.array_equal(counted, answers(case, every.repeat(weight), None))
    assert not np.array_equal(counted, answers(case, every, 0.3 * weight))


@pytest.mark.filterwarnings("ignore:training ended with a loss", "ignore:members need 20 rows")
@pytest.mark.parametrize("case", CASES)
def test_of_other_weights_ratios_matter_and_a_weight_of_0_is_no_row(case):
    weight, every = rows()[-1] * 0.3, np.arange(24)
    relative, kept = answers(case, every, weight), np.flatnonzero(weight)
    assert np.array_equal(relative, answers(case, kept, weight[kept]))
    assert np.array_equal(answers(case, kept, np.full(len(kept), 0.3)), answers(case, kept, None))
    for scale in (2.0**-10, 2.0**30):
        assert np.array_equal(relative, answers(case, every, weight * scale))


def test_large_whole_weights_are_relative():
    weight, every = rows()[-1], np.arange(24)
    large = answers("classifier", every, weight * 1_000_000)
    assert np.array_equal(large, answers("classifier", every, weight * 0.25))


def test_large_counts_are_told_of():
    X, y = loans(24)
    with pytest.warns(UserWarning, match="whole numbers, which are counts: 24 rows count as 720;"):
        GCMClassifier(**SMALL, members=2).fit(X, y, sample_weight=np.full(24, 30))


def test_weights_of_classes_are_relative():
    X, y = loans(40)
    model = GCMClassifier(**SMALL, members=2, class_weight={"no": 1, "yes": 3}).fit(X, y)
    assert model.training_["rows"] == 40
    weight = pd.Series(y).map({"no": 1.0, "yes": 3.0})
    other = GCMClassifier(**SMALL, members=2).fit(X, y, sample_weight=weight / 3.0)
    assert np.array_equal(model.predict_proba(X), other.predict_proba(X))
    both = GCMClassifier(**SMALL, members=2).fit(X, y, sample_weight=weight)
    assert both.training_["rows"] == weight.sum()
