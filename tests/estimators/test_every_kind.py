"""What estimators of every kind do alike: conventions of scikit-learn, questions, bands, scores."""

import functools
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from loans import loans
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

from pyro_gcm import estimators, save
from pyro_gcm.estimators import (
    GCMClassifier,
    GCMOrdinal,
    GCMRegressor,
    IGCMClassifier,
    IGCMRegressor,
)
from pyro_gcm.estimators.kinds import monotone_prediction, scores

X, LABELS = loans(240)
NUMBERS = 3.0 * (LABELS == "yes") + np.random.default_rng(1).normal(size=240)
TIMES = pd.DataFrame({"event": LABELS == "yes", "time": 5.0 + NUMBERS})
DIRECTIONS = {"income": -1, "debt": 1}
#: Options and outcomes of each kind, and what `explain` takes beside the rows.
KINDS = {
    "GCMClassifier": ({"members": 2}, LABELS, None),
    "GCMCounter": ({"members": 2}, np.random.default_rng(2).poisson(1.0 + (LABELS == "yes")), 1.0),
    "GCMOrdinal": ({"prior": "conditional"}, pd.cut(NUMBERS, 3, labels=list("abc")), "b"),
    "GCMRegressor": ({"members": 2, "response": "distribution"}, NUMBERS, 1.0),
    "GCMSurvival": ({"members": 2}, TIMES, None),
    "IGCMClassifier": ({}, LABELS, None),
    "IGCMRegressor": ({}, NUMBERS, None),
}


@functools.cache
def fitted(kind, **more):
    options, y, _ = KINDS[kind]
    options = {"monotonic_cst": DIRECTIONS, "epochs": 2, "hidden": 8, **options, **more}
    return getattr(estimators, kind)(**options).fit(X, y)


def test_the_recipe_of_the_documentation_scores_parts_in_other_processes(tmp_path):
    pages = Path(__file__).parents[2] / "docs" / "saving.md"
    recipe = re.search("## Score large.*?```python\n(.*?)```", pages.read_text(), re.DOTALL)[1]
    (tmp_path / "recipe.py").write_text(recipe)
    model, rows = fitted("GCMClassifier"), X.assign(id=range(240), note="x")
    save(model, tmp_path / "auction")
    call = "import sys, pandas as pd; from recipe import score; "
    call += "score(pd.read_pickle('rows')).to_pickle('scored')"
    rows.to_pickle(tmp_path / "rows")
    subprocess.run([sys.executable, "-c", call], check=True, cwd=tmp_path)
    whole = pd.read_pickle(tmp_path / "scored")
    # Another process rounds as this processor does, also where the tests are to round otherwise.
    np.testing.assert_allclose(whole["probability"], model.predict_proba(X)[:, 1], rtol=1e-3)
    namespace = {}
    exec(recipe, namespace)
    score = partial(namespace["score"], folder=str(tmp_path / "auction"))
    parts = [rows[:7], rows[7:7], rows[7:240]]  # as mapInPandas and map_partitions give them
    pd.testing.assert_frame_equal(pd.concat(map(score, parts)), whole)
    assert score(rows[:0]).dtypes.equals(whole.dtypes)


@pytest.mark.filterwarnings("ignore:.*beyond the training rows")
def test_questions_are_about_the_one_monotone_prediction():
    for kind in (kind for kind in KINDS if kind.startswith("G")):
        model, rows = fitted(kind), X.dropna()[:40]
        predicted = monotone_prediction(model, rows)
        level = float(np.median(predicted))
        needed = model.required(rows, "debt", level)["required"]
        there = np.isfinite(needed)
        assert there.sum() > 1, kind
        assert (monotone_prediction(model, rows.assign(debt=needed)[there]) >= level).all(), kind
        if model.rows_behind_ is not None:
            band = model.predict_bands(rows)
            assert (band.lower <= predicted).all(), kind
            assert (predicted <= band.upper).all(), kind
        above = {} if KINDS[kind][2] is None else {"above": KINDS[kind][2]}
        explained = model.explain(rows, **above)
        assert set(explained["feature"]) == set(DIRECTIONS)
        assert explained[["probability", "flip_probability"]].stack().between(0, 1).all()


def test_scores_that_rows_do_not_have_are_left_out():
    for kind, rows, wanted in (
        ("GCMRegressor", slice(None), {"r2", "rmse", "log_score"}),
        ("GCMRegressor", slice(1), {"rmse", "log_score"}),
        ("GCMSurvival", slice(None), {"concordance"}),
        ("GCMCounter", slice(None), {"d2", "log_score", "crps"}),
        ("GCMSurvival", LABELS == "no", set()),  # of which no two can be compared
        ("GCMClassifier", slice(None), {"auc", "log_score", "accuracy"}),
        ("GCMClassifier", slice(1), {"log_score", "accuracy"}),
    ):
        model, y = fitted(kind), KINDS[kind][1][rows]
        found = scores(model, X[rows], y)
        assert set(found) == wanted, (kind, rows)
        if wanted == {"rmse", "log_score"}:
            assert found["rmse"] == pytest.approx(abs(y[0] - model.predict(X[:1])[0]))


# Conventions of scikit-learn


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


SMALL = {"monotonic_cst": {"income": -1, "debt": 1}, "epochs": 2, "hidden": 8, "members": 2}


def test_a_pipeline_of_data_frames():
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")),
        (SimpleImputer(), ["income", "debt", "years"]),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    frame = X.drop(columns=["grade"]).astype({"job": "str"})
    pipeline = make_pipeline(encode, GCMClassifier(**SMALL)).fit(frame, LABELS)
    assert "income" in pipeline[-1].feature_names_in_
    assert np.allclose(np.exp(pipeline.predict_log_proba(frame)), pipeline.predict_proba(frame))
    out_of_fold = cross_val_predict(pipeline, frame, LABELS, cv=2, method="predict_proba")
    assert np.allclose(out_of_fold.sum(1), 1.0)


def test_partial_dependence_of_scikit_learn_rises_and_falls():
    longer = {**SMALL, "epochs": 5}
    for model, target, column, sign in (
        (GCMClassifier(**longer), LABELS, "debt", 1),
        (GCMRegressor(**longer), X["debt"].fillna(0.0), "income", -1),
    ):
        fitted = model.fit(X, target)
        curve = partial_dependence(fitted, X.dropna(), [column], grid_resolution=9)["average"][0]
        assert (sign * np.diff(curve) >= 0).all()
        assert curve[-1] != curve[0]


def test_class_weights_are_weights_of_rows_and_the_seed_decides():
    weights = {"no": 1.0, "yes": 3.0}
    one = GCMClassifier(**SMALL, class_weight=weights).fit(X, LABELS)
    relative = pd.Series(LABELS).map(weights) / 3.0
    other = GCMClassifier(**SMALL).fit(X, LABELS, sample_weight=relative)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-4)
    plain = GCMClassifier(**SMALL).fit(X, LABELS)
    moved = GCMClassifier(**SMALL, random_state=1).fit(X, LABELS)
    assert not np.allclose(moved.predict_proba(X), plain.predict_proba(X))
    assert one.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.02


def test_switches_of_numpy_are_switches():
    known = {"monotonic_cst": {"income": -1}, "members": 2, "epochs": 3}
    for pair in ((np.True_, True), (np.False_, False)):
        one, other = (GCMClassifier(**known, early_stopping=on, calibrate=on) for on in pair)
        found = [model.fit(X, LABELS).predict_proba(X) for model in (one, other)]
        assert np.array_equal(*found)
