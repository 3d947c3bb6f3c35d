"""The conventions of scikit-learn: its own checks, and the tools that estimators work in."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from loans import loans
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

from pyro_gcm.estimators import (
    GCMClassifier,
    GCMOrdinal,
    GCMRegressor,
    IGCMClassifier,
    IGCMRegressor,
)
from pyro_gcm.estimators.kinds import quantile_names

ESTIMATORS = [GCMClassifier, GCMOrdinal, GCMRegressor, IGCMClassifier, IGCMRegressor]
#: Checks that are expected to fail, with the reason.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "the repeated rows have another order, and so "
    "other mini-batches and draws: in that of the weighted rows predictions are the same numbers"
}
#: Runs where the environment has SCIPY_ARRAY_API alone.
ARRAY_API = "check_array_api_input"


def checks():
    for estimator in ESTIMATORS:
        for made, check in estimator_checks_generator(estimator(), mark=None):
            name = check.func.__name__
            fails = pytest.mark.xfail(reason=EXPECTED.get(name), strict=True)
            marks = fails if name in EXPECTED else ()
            if name != ARRAY_API:
                yield pytest.param(made, check, id=f"{estimator.__name__}-{name}", marks=marks)


@pytest.mark.long(keep=8)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:members need 20 rows")
@pytest.mark.parametrize(("estimator", "check"), [*checks()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.long(keep=0)
def test_scikit_learns_check_of_the_array_api():
    program = (
        "from sklearn.utils.estimator_checks import check_array_api_input as check\n"
        "from pyro_gcm.estimators import GCMClassifier, IGCMRegressor\n"
        "for estimator in (GCMClassifier(epochs=2), IGCMRegressor(epochs=2)):\n"
        "    check(type(estimator).__name__, estimator, 'numpy')\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.fixture(scope="module")
def table():
    return loans(240)


SMALL = {"monotonic_cst": {"income": -1, "debt": 1}, "epochs": 2, "hidden": 8, "members": 2}


@pytest.mark.long(keep=0)
def test_a_grid_search_clones_fits_and_scores_in_processes(table):
    X, y = table
    search = GridSearchCV(GCMClassifier(**SMALL), {"hidden": [4, 8]}, cv=2, n_jobs=2)
    search.fit(X, y)
    assert search.best_estimator_.model_.encoder.out_dim == 2 + search.best_params_["hidden"]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_pipeline_of_data_frames(table):
    X, y = table
    encode = ColumnTransformer(
        [
            (
                "text",
                OneHotEncoder(sparse_output=False),
                make_column_selector(dtype_exclude="number"),
            ),
            ("numbers", SimpleImputer(), ["income", "debt", "years"]),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    X = X.drop(columns=["grade"]).astype({"job": "str"})
    pipeline = make_pipeline(encode, GCMClassifier(**SMALL)).fit(X, y)
    assert "income" in pipeline[-1].feature_names_in_
    assert pipeline.predict_proba(X).shape == (240, 2)
    assert np.allclose(np.exp(pipeline.predict_log_proba(X)), pipeline.predict_proba(X))
    out_of_fold = cross_val_predict(pipeline, X, y, cv=2, method="predict_proba")
    assert np.allclose(out_of_fold.sum(1), 1.0)


def test_calibration_importance_and_partial_dependence(table):
    X, y = table
    calibrated = CalibratedClassifierCV(GCMClassifier(**SMALL), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (240, 2)
    longer = {**SMALL, "epochs": 5}
    model = GCMClassifier(**longer).fit(X, y)
    importance = permutation_importance(model, X, y, n_repeats=1, random_state=0)
    assert importance.importances_mean.shape == (X.shape[1],)
    curve = partial_dependence(model, X.dropna(), ["debt"], grid_resolution=9)["average"][0]
    assert (np.diff(curve) >= 0).all()
    assert curve[-1] > curve[0]
    regressor = GCMRegressor(**longer).fit(X, X["debt"].fillna(0.0))
    curve = partial_dependence(regressor, X.dropna(), ["income"], grid_resolution=9)["average"][0]
    assert (np.diff(curve) <= 0).all()


def test_class_weights_are_weights_of_rows_and_the_seed_decides(table):
    X, y = table
    weights = {"no": 1.0, "yes": 3.0}
    one = GCMClassifier(**SMALL, class_weight=weights).fit(X, y)
    relative = pd.Series(y).map(weights) / 3.0
    other = GCMClassifier(**SMALL).fit(X, y, sample_weight=relative)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-4)
    plain = GCMClassifier(**SMALL).fit(X, y)
    moved = GCMClassifier(**SMALL, random_state=1).fit(X, y)
    assert not np.allclose(moved.predict_proba(X), plain.predict_proba(X))
    assert one.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.02


def test_switches_of_numpy_are_switches(table):
    X, y = table
    options = {"verbose": np.False_, "early_stopping": np.False_, "calibrate": np.False_}
    one = GCMClassifier(**SMALL, **options)
    other = GCMClassifier(**SMALL, verbose=False, early_stopping=False, calibrate=False)
    assert np.array_equal(one.fit(X, y).predict_proba(X), other.fit(X, y).predict_proba(X))
    known = {"monotonic_cst": {"income": 1}, "members": 2, "epochs": 3}
    one, other = (
        GCMClassifier(**known, early_stopping=on, calibrate=on) for on in (np.True_, True)
    )
    assert np.array_equal(one.fit(X, y).predict_proba(X), other.fit(X, y).predict_proba(X))


def test_quantiles_are_named_by_all_their_digits():
    assert quantile_names([0.1, 0.4999999, 0.9999999999]) == ["q0.1", "q0.4999999", "q0.9999999999"]
