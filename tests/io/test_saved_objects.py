"""Any registered class with `saved_state` and `from_saved_state` can be saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm._utils import recipe
from pyro_gcm.io import register


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "_CLASSES", dict(recipe._CLASSES))


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
    folder = pyro_gcm.save(Scaled(data, parts), tmp_path / "saved")
    loaded = pyro_gcm.load(folder)
    assert type(loaded) is Scaled
    assert list(loaded.data) == ["z", "a", "t"]
    assert loaded.data == {**data, "a": {"text": "ä \ud800", "n": 3}, "t": [1, 2]}
    assert list(loaded.parts) == list(parts)
    for mine, theirs in (
        (parts["centres"], loaded.parts["centres"]),
        (parts["codes"], loaded.parts["codes"]),
        (parts["inner"].parts["centres"], loaded.parts["inner"].parts["centres"]),
    ):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)
    x, r = torch.randn(5, 2), torch.randn(5, 1)
    for name in ("models.0", "models.1"):
        assert torch.equal(parts[name].predict(x, r), loaded.parts[name].predict(x, r))


@pytest.mark.parametrize(
    ("data", "parts", "wanted"),
    [
        ({"limit": float("nan")}, {}, "data.limit must be finite"),
        ({"columns": [object()]}, {}, r"data.columns.0 must be None, a boolean"),
        ({1: 2}, {}, "data must have strings as keys"),
        ({}, {"a": GCM(1, 1), "a.seed": 3}, "a.seed"),
        ({}, {"a": {"b": 1}}, "a is a dict from outside"),
        ({}, {"net": nn.Linear(1, 1)}, "net is a Linear from outside"),
        ({}, {"trees": b"text"}, "trees is a bytes from outside"),
    ],
)
def test_others_are_refused_by_name(data: Any, parts: Any, wanted: str, tmp_path: Path) -> None:
    register("tests.Scaled")(Scaled)
    with pytest.raises((TypeError, ValueError), match=wanted):
        pyro_gcm.save(Scaled(data, parts), tmp_path / "saved")
    assert not list(tmp_path.iterdir())


def test_a_class_must_be_registered_under_a_name_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"registered with pyro_gcm\.io\.register, got Scaled"):
        pyro_gcm.save(Scaled({}, {}), tmp_path / "saved")
    for what in (nn.Linear(1, 1), 3, None, torch.ones(2), b"text", dict):
        with pytest.raises(TypeError, match="model_or_estimator must be a model or an estimator"):
            pyro_gcm.save(what, tmp_path / "saved")
    with pytest.raises(ValueError, match=r"belongs to pyro_gcm\.models\.gcm\.GCM"):
        register("models.GCM")(Scaled)
    register("tests.Scaled")(Scaled)
    register("tests.Scaled")(Scaled)  # as a module that is reloaded does


def test_metrics_and_versions_are_in_the_card(tmp_path: Path) -> None:
    folder = pyro_gcm.save(GCM(2, 1), tmp_path / "saved", metrics={"auc": np.float32(0.5)})
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert card == {**pyro_gcm.io.read_card(folder), "sha256": card["sha256"]}
    assert card["metrics"] == {"auc": 0.5}
    assert card["versions"]["pyro_gcm"] == pyro_gcm.__version__
    assert card["class"] == "models.GCM"
