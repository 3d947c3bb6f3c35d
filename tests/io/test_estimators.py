"""Estimators come back with columns, encodings, options and bands, in any process."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_estimators import KINDS, computed, fitted, table
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import pyro_gcm
from pyro_gcm.estimators import GCMClassifier, GCMRegressor


@pytest.fixture(autouse=True)
def few_rows() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # values beyond the training rows
        yield


@pytest.mark.long(keep=("GCMClassifier, bootstrap", "GCMRegressor, distribution"))
@pytest.mark.parametrize("name", KINDS)
def test_an_estimator_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model, (X, _) = fitted(name), table()
    folder = pyro_gcm.save(model, tmp_path / "saved", metrics={"rows": len(X)})
    loaded = pyro_gcm.load(folder)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert repr(clone(loaded)) == repr(model)
    wanted = computed(model)
    for key, values in computed(loaded).items():
        np.testing.assert_array_equal(values, wanted[key], err_msg=key)
    if "members" in KINDS[name][1]:
        mine, theirs = (one.predict_bands(X, 0.8) for one in (model, loaded))
        np.testing.assert_array_equal(mine.draws, theirs.draws)
    assert (loaded.predict(X[X.columns[::-1]]) == model.predict(X)).all()
    with pytest.raises(ValueError, match="yet now missing:\n- income"):
        loaded.predict(X.drop(columns="income"))
    again = pyro_gcm.save(loaded, tmp_path / "again", metrics={"rows": len(X)})
    for path in folder.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("labels", [[0, 1], [True, False], [1.0, 2.0], ["a", "bc"]])
def test_labels_and_unnamed_columns_come_back(labels: list[Any], tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = np.array(labels)[(X[:, 0] > 0).astype(int)]
    model = GCMClassifier(monotonic_cst=np.array([1, 0, -1]), epochs=1, members=2).fit(X, y)
    loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / "saved"))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.n_features_in_ == 3
    assert not hasattr(loaded, "feature_names_in_")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_what_cannot_be_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        pyro_gcm.save(GCMRegressor(), tmp_path / "saved")
    pipeline = make_pipeline(FunctionTransformer(), GCMRegressor())
    with pytest.raises(TypeError, match="got Pipeline"):
        pyro_gcm.save(pipeline, tmp_path / "saved")
    assert not list(tmp_path.iterdir())
