"""What a notebook shows of an estimator."""

from __future__ import annotations

import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator

from pyro_gcm import load, save
from pyro_gcm.estimators import GCMClassifier


def test_a_fitted_estimator_adds_a_short_table_to_its_diagram(tmp_path: object) -> None:
    X = pd.DataFrame({"<b>debt": range(40), "job": ["a", "b"] * 20})
    model = GCMClassifier(monotonic_cst={"<b>debt": 1}, members=2, epochs=2)
    plain = BaseEstimator._repr_mimebundle_(model)["text/html"]
    assert "fitted</caption>" not in model._repr_mimebundle_()["text/html"]
    assert len(model._repr_html_()) == pytest.approx(len(plain), rel=0.01)  # ids of scikit-learn
    model.fit(X, [0, 1] * 20)
    shown = model._repr_mimebundle_()["text/html"]
    assert shown.startswith(BaseEstimator._repr_mimebundle_(model)["text/html"][:20])
    table = shown[shown.rindex("<table>") :]
    for text in (
        "GCMClassifier, fitted",
        '<th style="text-align: left">&lt;b&gt;debt</th>',
        "prediction rises with it, 0 to 39 in training",
        ">40<",
        f"{model.training_['loss']:.4g}",
    ):
        assert text in table
    assert "<b>debt" not in table
    again = load(save(model, f"{tmp_path}/model"))
    assert again.training_ == model.training_ == {"rows": 40, "loss": model.training_["loss"]}
    assert table in again._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]
