"""Estimators in a folder: the same predictions, monotone, in another process and with threads."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from loans import loans
from sklearn.base import clone

from pyro_gcm import load, save
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier, GCMRegressor, IGCMClassifier, IGCMRegressor
from pyro_gcm.io import DamagedFolder

DIRECTIONS = {"income": -1, "debt": 1, "grade": 1}
QUICK = {"monotonic_cst": DIRECTIONS, "epochs": 3, "hidden": 8}
MODELS = {
    "members": GCMClassifier(**QUICK, class_weight={"yes": 2.0, "no": 1.0}),
    "bootstrap": GCMClassifier(**QUICK, members=2, bootstrap=2, categorical_features=[3, 4]),
    "paper": GCMClassifier(**QUICK, prior="conditional"),
    "regressor": GCMRegressor(**{**QUICK, "monotonic_cst": [-1, 1, 0, 0, 1]}),
    "implicit": IGCMClassifier(**QUICK),
    "implicit regressor": IGCMRegressor(epochs=2, monotonic_cst=np.array([-1, 1, 0, 0, 1])),
}


@pytest.fixture(scope="module")
def table():
    return loans(150)


def fitted(name, table):
    X, y = table
    model = clone(MODELS[name])
    return model.fit(X, X["years"] if "regressor" in name else y)


def predictions(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_estimator_is_the_one_that_was_saved(name, table, tmp_path):
    X, _ = table
    model = fitted(name, table)
    expected = predictions(model, X)
    save(model, tmp_path / "saved", metrics={"AUC": 0.7})
    loaded = load(tmp_path / "saved")
    assert type(loaded) is type(model)
    assert np.array_equal(predictions(loaded, X), expected)
    strange = X.assign(job="unseen", income=np.nan)
    assert np.array_equal(predictions(loaded, strange), predictions(model, strange))
    assert str(loaded.get_params()) == str(clone(loaded).get_params())
    assert loaded.feature_names_in_.tolist() == X.columns.tolist()
    if hasattr(model, "classes_"):
        assert loaded.classes_.tolist() == model.classes_.tolist()
        assert loaded.classes_.dtype == model.classes_.dtype
    assert np.array_equal(predictions(pickle.loads(pickle.dumps(model)), X), expected)
    if name in ("members", "bootstrap"):
        assert np.array_equal(loaded.predict_bands(X).draws, model.predict_bands(X).draws)
        audit = audit_table(loaded, X, pairs=500, searches=["grid"], tolerance=0.0, progress=False)
        assert audit.passed


def test_another_process_with_more_threads_predicts_the_same_bits(table, tmp_path):
    X, _ = table
    model = fitted("members", table)
    save(model, tmp_path / "saved")
    X.to_pickle(tmp_path / "table")
    program = (
        "import numpy, pandas, sys, torch\n"
        "import pyro_gcm\n"
        "torch.set_num_threads(3)\n"
        "model = pyro_gcm.load('saved')\n"
        "numpy.save('p.npy', model.predict_proba(pandas.read_pickle('table')))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment)
    assert np.array_equal(np.load(tmp_path / "p.npy"), model.predict_proba(X))


def test_damage_and_options_that_are_no_data_are_refused(table, tmp_path):
    model = fitted("members", table)
    folder = tmp_path / "saved"
    save(model, folder)
    generator = np.random.default_rng(0)
    files = sorted(folder.iterdir())
    for _ in range(60):
        file = files[generator.integers(len(files))]
        whole = file.read_bytes()
        bad = bytearray(whole)
        bad[generator.integers(len(bad))] ^= 1 << generator.integers(8)
        file.write_bytes(bad)
        with pytest.raises(DamagedFolder):
            load(folder)
        file.write_bytes(whole)
    model.set_params(random_state=np.random.RandomState(0))
    with pytest.raises(TypeError, match="random_state must be None, a number, text"):
        save(model, tmp_path / "other")
