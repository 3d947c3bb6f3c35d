"""Unordered classes: what their directions promise, and what is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, MemberGCM, fit, load, save
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier, IGCMClassifier
from pyro_gcm.estimators.kinds import predictions, scores
from pyro_gcm.responses import Binary, Classes, Several
from pyro_gcm.responses.classes import order_of

#: Revenue 0 speaks for class 0 and against class 3, and revenue 1 against class 1.
DIRECTIONS = [[1, 0], [0, -1], [0, 0], [-1, 0]]
#: Whether the probability of each class rises or falls with each revenue.
ORDER = torch.tensor([[1, 1], [0, -1], [0, 1], [-1, 1]])
MODELS: dict[str, tuple[type[GCM], dict[str, Any]]] = {
    "plain": (GCM, {"hidden": 4, "num_samples": 16}),
    "alternatives": (GCM, {"hidden": 4, "num_samples": 16, "alternatives": 2}),
    "members": (MemberGCM, {"hidden": 4, "members": 3}),
}


def model_of(name: str, dtype: torch.dtype = torch.float64) -> Any:
    kind, options = MODELS[name]
    torch.default_generator.manual_seed(0)
    response = Classes(classes=4, directions=DIRECTIONS, event=0)
    model = kind(3, 2, response=response, **options)
    x, r, y = rows(300)
    model.learn_units(x, r, y)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


def rows(count: int) -> tuple[Tensor, Tensor, Tensor]:
    x, r = torch.randn(count, 3), 3.0 * torch.rand(count, 2) - 1.0
    return x, r, torch.randint(4, (count,)).float()


@pytest.mark.parametrize("name", MODELS)
def test_what_speaks_for_a_class_raises_it_and_lowers_the_others_to_the_last_bit(name: str) -> None:
    for dtype, column in product((torch.float32, torch.float64), (0, 1)):
        model, (x, r, _) = model_of(name, dtype), rows(400)
        x, r = x.to(dtype), r.to(dtype)
        p = model.predictive(x, r).probabilities()
        assert (p.sum(1) - 1.0).abs().max() < 1e-12
        for k in range(4):
            of_class = model.response_model(k).predict(x, r)
            assert torch.equal(of_class, p[:, k])
        assert torch.equal(model.predict(x, r), p[:, 0])
        for step in (0.0, 1e-12, 1e-6, 0.1, 1e4):
            raised = r.clone()
            raised[:, column] = torch.nextafter(r, r + 1.0)[:, column] + step
            part = torch.randperm(400)[:201]
            higher = model.predictive(x[part], raised[part]).probabilities()
            order = ORDER[:, column]
            assert ((higher - p[part]) * order >= 0.0)[:, order != 0].all(), (dtype, column, step)


def test_two_classes_are_a_binary_response_with_logistic_costs() -> None:
    model = GCM(2, 1, response=Classes(classes=2), hidden=4).double()
    x, r = torch.randn(20, 2).double(), torch.randn(20, 1).double()
    z = torch.randn(1, 20, 4).double()
    p_y = model.y_dist(model.c_dist(z, x), x, r)
    first, second = p_y.utilities().unbind(-1)
    assert torch.allclose(p_y.log_prob(torch.ones(20)).exp(), torch.sigmoid(second - first))


def test_a_fit_to_rows_of_one_class_is_finite() -> None:
    model, (x, r, y) = model_of("plain", torch.float32), rows(100)
    with pytest.warns(UserWarning, match="nothing to learn"):
        fit(model, x, r, torch.zeros_like(y), epochs=40, learning_rate=0.1, progress=False)
    assert all(p.isfinite().all() for p in model.parameters())
    assert model.predict(x, r).mean() > 0.8  # 1.0 with every seed


def test_what_cannot_be_is_refused_by_name() -> None:
    for options, message in (
        ({"classes": 1}, "classes must be"),
        ({"event": 3}, "event must be a class from 0 to 2, got 3"),
        ({"directions": [[1, 0]] * 2}, "directions must have"),
        ({"directions": [[2, 0]] * 3}, "directions must have"),
        ({"directions": [[0, 1]] * 3}, "directions must not be .1 for every class, as for reven"),
    ):
        with pytest.raises(ValueError, match=message):
            GCM(3, 2, response=Classes(**options))
    for options, message in (
        ({"p0": "constant"}, "p0 must be left out"),
        ({"revenue_map": torch.nn.Identity()}, "revenue_map must be a name"),
        ({"cost_family": GCM(3, 2, z_dim=4).cost_net}, "cost_family must give"),
    ):
        with pytest.raises(ValueError, match=message):
            GCM(3, 2, response="classes", **options)
    with pytest.raises(ValueError, match=r"parts\['mode'\] must be"):
        Several({"mode": Classes(), "late": Binary()})
    model, (x, r, y) = model_of("plain", torch.float32), rows(20)
    with pytest.raises(ValueError, match="y must be a class from 0 to 3"):
        fit(model, x, r, y + 1.0, progress=False)
    with pytest.raises(ValueError, match="name must be a class"):
        model.response_model("mode")
    with pytest.raises(ValueError, match="a direction of -1"):
        model.response_model(3).required_revenue(x, 0.5)


# The classifier

LABELS = np.array(["bus", "car", "walk"])
CST = {"bus": {"fare": -1}, "car": {"time": -1}}


def trips(count: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Fares that speak against the bus, and driving times against the car."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"fare": rng.uniform(1, 5, count), "time": rng.uniform(10, 60, count)})
    X["town"] = rng.choice(["a", "b"], count)
    town = 2.0 * (X["town"] == "b")
    utility = np.stack([2.0 - X["fare"], 2.0 - 0.08 * X["time"] + town, 0.0 * town], 1)
    return X, LABELS[(utility + rng.gumbel(size=utility.shape)).argmax(1)]


@pytest.fixture(scope="module")
def classifier() -> GCMClassifier:
    options: Any = {"monotonic_cst": CST, "positive": "bus", "members": 2, "hidden": 16}
    return GCMClassifier(**options, epochs=8).fit(*trips(500))


@pytest.mark.filterwarnings("ignore:.*beyond the training rows")
def test_a_classifier_of_three_classes_keeps_the_directions_of_each(
    classifier: GCMClassifier, tmp_path: Path
) -> None:
    X, y = trips(300, 1)
    p = classifier.predict_proba(X)
    assert np.abs(p.sum(1) - 1.0).max() < 1e-12
    dearer = classifier.predict_proba(X.assign(fare=X["fare"] + 0.5))
    assert (dearer[:, 0] < p[:, 0]).all()
    assert (dearer[:, 1:] > p[:, 1:]).all()
    slower = classifier.predict_proba(X.assign(time=X["time"] + 5.0))
    assert (slower[:, 1] < p[:, 1]).all()
    assert (slower[:, [0, 2]] > p[:, [0, 2]]).all()
    assert classifier.directions_ == [-1, 1, 0]
    assert classifier.score(X, y) > 0.5  # .60 to .61 with five seeds
    needed = classifier.required(X[:20], "fare", 0.3)["required"]
    known = classifier.predict_proba(X[:20].assign(fare=needed)[np.isfinite(needed)])
    assert (known[:, 0] >= 0.3).all()
    table = predictions(classifier, X)
    assert list(table) == ["probability", *(f"probability_{k}" for k in LABELS), "class"]
    assert (table["class"] == classifier.predict(X)).all()
    assert set(scores(classifier, X, y)) == {"auc", "log_score", "accuracy"}
    assert audit_table(classifier, X, pairs=600).passed
    save(classifier, tmp_path / "trips")
    np.testing.assert_array_equal(load(tmp_path / "trips").predict_proba(X), p)


def test_directions_of_classes_are_read_or_refused_by_name() -> None:
    X, y = trips(60)
    for options, message in (
        ({"monotonic_cst": [1, 0, 0]}, "monotonic_cst must be a mapping from classes"),
        ({"monotonic_cst": {"tram": [1, 0, 0]}}, "monotonic_cst must be a mapping from classes"),
        ({"monotonic_cst": {"car": {"speed": 1}}}, r"monotonic_cst\['car'\] names \['speed'\]"),
        ({"monotonic_cst": {k: [0, 1, 0] for k in LABELS}}, r"every class, as for column 'time'"),
        ({"calibrate": True, "epochs": 1}, "calibrate=True needs predictions of rows that"),
        (
            {"monotonic_cst": CST, "concave": ["fare"]},
            "concave must be left out",
        ),
        ({"positive": "tram"}, "positive must be one of the classes"),
    ):
        with pytest.raises(ValueError, match=message):
            GCMClassifier(**{"epochs": 1, **options}).fit(X, y)
    for by_class in ({"bus": {"fare": -1}}, {"bus": [1, 0, 0], "else": [0, 1, 0]}):
        with pytest.raises(ValueError, match="directions of columns, not of classes, with two"):
            GCMClassifier(monotonic_cst=by_class).fit(X, np.where(y == "bus", y, "else"))
    with pytest.raises(ValueError, match="Only binary classification"):
        IGCMClassifier(epochs=1).fit(X, y)
    free = GCMClassifier(epochs=1, members=2, prior="conditional").fit(X, y)
    assert free.directions_ == [0, 0, 0]
    assert free.predict_proba(X).shape == (60, 3)


def test_calibration_is_one_temperature_which_changes_no_order() -> None:
    X, y = trips(120)
    options: Any = {"monotonic_cst": CST, "members": 2, "hidden": 8, "early_stopping": True}
    options["epochs"] = 3
    plain, calibrated = (GCMClassifier(calibrate=c, **options).fit(X, y) for c in ("auto", True))
    moved = (
        calibrated.model_.cost_net.steepness_bias - plain.model_.cost_net.steepness_bias
    ).detach()
    assert moved.abs().min() > 1e-4
    torch.testing.assert_close(moved, moved.mean().expand_as(moved), atol=1e-6, rtol=0.0)
    rest, new = plain.model_.state_dict(), calibrated.model_.state_dict()
    changed = [name for name in rest if not torch.equal(rest[name], new[name])]
    assert changed == ["cost_net.layer.bias"]
    x, r = calibrated.encoding_(calibrated._columns(X))
    p = calibrated.model_.predictive(x, r).probabilities()
    assert (p.sum(1) - 1.0).abs().max() < 1e-12
    rows = calibrated.model_.response.rows
    for column, step in product((0, 1), (0.0, 1e-6, 0.1, 10.0)):
        raised = r.clone()
        raised[:, column] = torch.nextafter(r, r + 1.0)[:, column] + step
        change = calibrated.model_.predictive(x, raised).probabilities() - p
        for k in range(3):
            assert (change[:, k] * order_of([row[column] for row in rows], k) >= 0.0).all()


def test_a_column_that_speaks_for_two_classes_orders_both_together() -> None:
    X, y = trips(300)
    cst = {"bus": {"time": 1}, "walk": {"time": 1}}
    model = GCMClassifier(monotonic_cst=cst, epochs=4, members=2).fit(X, y)
    assert model.directions_ == [0, 0, 0]  # of walking alone nothing is promised
    slower = model.predict_proba(X.assign(time=X["time"] + 5.0)) - model.predict_proba(X)
    assert (slower[:, 1] < 0.0).all()
    with pytest.raises(ValueError, match="a direction of 0"):
        model.required(X, "time", 0.5)
    with pytest.raises(ValueError, match="a column with a direction"):
        model.explain(X)


def test_classes_as_numbers_run_from_minus_one_to_one() -> None:
    numbers = Classes(classes=5).standardized(torch.arange(5.0))
    assert numbers.tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
