"""Estimators, and any registered class with `saved_state` and `from_saved_state`, come back."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from saved_estimators import KINDS, computed, fitted, table
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm._utils.recipe import CLASSES
from pyro_gcm.estimators import GCMClassifier, GCMRegressor
from pyro_gcm.io import register


@pytest.fixture(autouse=True)
def quiet_and_unregistered() -> Any:
    known = dict(CLASSES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # values beyond the training rows
        yield
    CLASSES.clear()
    CLASSES.update(known)


@pytest.mark.long(keep=("GCMClassifier", "GCMRegressor, distribution"))
@pytest.mark.parametrize("name", KINDS)
def test_an_estimator_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model, (X, _) = fitted(name), table()
    folder = pyro_gcm.save(model, tmp_path / "saved", metrics={"rows": len(X)})
    loaded = pyro_gcm.load(folder)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(clone(loaded)) == repr(model)
    wanted = computed(model)
    for key, values in computed(loaded).items():
        np.testing.assert_array_equal(values, wanted[key], err_msg=key)
    if "members" in KINDS[name][1]:
        mine, theirs = (one.predict_bands(X, 0.8) for one in (model, loaded))
        assert all(map(np.array_equal, mine, theirs))
    assert (loaded.predict(X[X.columns[::-1]]) == model.predict(X)).all()
    with pytest.raises(ValueError, match="yet now missing:\n- income"):
        loaded.predict(X.drop(columns="income"))
    again = pyro_gcm.save(loaded, tmp_path / "again", metrics={"rows": len(X)})
    for path in folder.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_labels_and_unnamed_columns_come_back(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    for labels in ([0, 1], [True, False], [1.0, 2.0], ["a", "bc"]):
        y = np.array(labels)[(X[:, 0] > 0).astype(int)]
        model = GCMClassifier(monotonic_cst=np.array([1, 0, -1]), epochs=1, members=2).fit(X, y)
        loaded = pyro_gcm.load(pyro_gcm.save(model, tmp_path / str(labels)))
        assert loaded.classes_.dtype == model.classes_.dtype
        assert loaded.n_features_in_ == 3
        assert not hasattr(loaded, "feature_names_in_")
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


class Scaled:
    """Several models, a tensor, text and plain data, as an estimator has them."""

    def __init__(self, data: dict[str, Any], parts: dict[str, Any]) -> None:
        self.data, self.parts = data, parts

    def saved_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.data, self.parts

    @classmethod
    def from_saved_state(cls, data: dict[str, Any], parts: dict[str, Any]) -> Scaled:
        return cls(data, parts)


def test_data_and_parts_come_back(tmp_path: Path) -> None:
    register("tests.Scaled")(Scaled)
    data = {"z": [1, 0.1, None, True], "a": {"text": "ä \ud800", "n": np.int64(3)}, "t": (1, 2)}
    parts = {
        "models.0": GCM(2, 1, seed=1),
        "models.1": GCM(2, 1, prior="mixture", seed=2).double(),
        "centres": torch.arange(3, dtype=torch.float16),
        "codes": torch.tensor([True, False]),
        "inner": Scaled({}, {"centres": torch.ones(2, 3).T}),
    }
    loaded = pyro_gcm.load(pyro_gcm.save(Scaled(data, parts), tmp_path / "saved"))
    assert type(loaded) is Scaled
    assert list(loaded.data) == ["z", "a", "t"]
    assert loaded.data == {**data, "a": {"text": "ä \ud800", "n": 3}, "t": [1, 2]}
    assert list(loaded.parts) == list(parts)
    x, r = torch.randn(5, 2), torch.randn(5, 1)
    inner, kept = parts.pop("inner"), loaded.parts["inner"]
    for name, part in {**parts, **inner.parts}.items():
        mine, theirs = part, {**loaded.parts, **kept.parts}[name]
        if isinstance(part, GCM):
            mine, theirs = mine.predict(x, r), theirs.predict(x, r)
        assert mine.dtype == theirs.dtype, name
        assert torch.equal(mine, theirs), name


#: Data and parts that cannot be saved.
UNSAVED: list[tuple[Any, Any, str]] = [
    ({"limit": float("nan")}, {}, "data.limit must be finite"),
    ({"columns": [object()]}, {}, r"data.columns.0 must be None, a boolean"),
    ({1: 2}, {}, "data must have strings as keys"),
    ({}, {"a": GCM(1, 1), "a.seed": 3}, "a.seed"),
    ({}, {"a": {"b": 1}}, "a is a dict from outside"),
    ({}, {"net": nn.Linear(1, 1)}, "net is a Linear from outside"),
    ({}, {"trees": b"text"}, "trees is a bytes from outside"),
]


def test_what_cannot_be_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"registered with pyro_gcm\.io\.register, got Scaled"):
        pyro_gcm.save(Scaled({}, {}), tmp_path / "saved")
    for what in (nn.Linear(1, 1), 3, None, dict):
        with pytest.raises(TypeError, match="model_or_estimator must be a model or an estimator"):
            pyro_gcm.save(what, tmp_path / "saved")
    with pytest.raises(NotFittedError):
        pyro_gcm.save(GCMRegressor(), tmp_path / "saved")
    pipeline = make_pipeline(FunctionTransformer(), GCMRegressor())
    with pytest.raises(TypeError, match="got Pipeline"):
        pyro_gcm.save(pipeline, tmp_path / "saved")
    with pytest.raises(ValueError, match=r"belongs to pyro_gcm\.models\.gcm\.GCM"):
        register("models.GCM")(Scaled)
    register("tests.Scaled")(Scaled)
    register("tests.Scaled")(Scaled)  # as a module that is reloaded does
    for data, parts, wanted in UNSAVED:
        with pytest.raises((TypeError, ValueError), match=wanted):
            pyro_gcm.save(Scaled(data, parts), tmp_path / "saved")
    assert not list(tmp_path.iterdir())


def test_metrics_and_versions_are_in_the_card(tmp_path: Path) -> None:
    folder = pyro_gcm.save(GCM(2, 1), tmp_path / "saved", metrics={"auc": np.float32(0.5)})
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert card == {**pyro_gcm.io.read_card(folder), "sha256": card["sha256"]}
    assert card["metrics"] == {"auc": 0.5}
    assert card["versions"]["pyro_gcm"] == pyro_gcm.__version__
    assert card["class"] == "models.GCM"
