"""Diminishing returns: what `concave=` promises, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, MemberGCM, fit, load, save
from pyro_gcm.audit import audit_concavity, audit_table_concavity
from pyro_gcm.distributions.half_costs import Exponential
from pyro_gcm.estimators import GCMClassifier

MODELS: dict[str, tuple[type[GCM], dict[str, Any]]] = {
    "exponential": (GCM, {"cost_family": "laplace", "concave": [0, 2]}),
    "half-normal": (GCM, {"alternatives": 2, "costs": 2, "concave": [0, 2]}),
    "splines": (GCM, {"alternatives": 3, "revenue_map": "piecewise_linear", "concave": [0, 2]}),
    "one column": (MemberGCM, {"members": 3, "concave": [0]}),
    "all columns": (MemberGCM, {"members": 3, "concave": [0, 1, 2], "p0": "constant"}),
}


def rows(count: int) -> tuple[Tensor, Tensor, Tensor]:
    x, r = torch.randn(count, 2), 4.0 * torch.rand(count, 3)
    return x, r, (torch.rand(count) < 0.8 * (1.0 - torch.exp(-r[:, 0]))).float()


def model_of(name: str, dtype: torch.dtype = torch.float64) -> Any:
    kind, options = MODELS[name]
    torch.default_generator.manual_seed(0)
    model = kind(2, 3, hidden=4, **options)
    model.learn_units(*rows(200))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_rise_to_the_last_bit_and_are_concave(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        model, (x, r, _) = model_of(name, dtype), rows(300)
        x, r = x.to(dtype), r.to(dtype)
        p = model.predict(x, r)
        for column in range(3):
            for step in (0.0, 1e-12, 1e-6, 0.1, 1e4):
                raised = r.clone()
                raised[:, column] = torch.nextafter(r, r + 1.0)[:, column] + step
                assert (model.predict(x, raised) >= p).all(), (dtype, column, step)
        concave = MODELS[name][1]["concave"]
        audit = audit_concavity(model, x, r, concave, triples=4000)
        assert audit.passed
        # What is left is the rounding of r, to a grid of 2^-40, and of its units.
        least = 1e-11 if dtype == torch.float64 else 1e-6
        assert audit.largest < least
        assert not audit_concavity(lambda x, r: r[:, 0] ** 2, x, r, [0], triples=400).passed


def test_a_fit_of_exponential_costs_is_finite_from_the_first_batch_on() -> None:
    x, r, y = rows(400)
    r[:50] = 0.0  # where an increment of 0 would make the event impossible
    for family in ("laplace", "logistic", "normal"):
        model = GCM(2, 3, concave=[0, 1, 2], cost_family=family, hidden=4)
        result = fit(model, x, r, y, epochs=15, progress=False)
        losses = result.history["loss"].to_numpy()
        assert np.isfinite(losses).all()
        assert losses[-1] < 0.9 * losses[0]
        assert (model.predict(x, r)[:50] > 0.0).all()


def test_a_column_that_was_shifted_counts_from_zero() -> None:
    x, r, y = rows(300)
    model = GCM(2, 3, concave=[0], hidden=4)
    model.learn_units(x, r + 3.0, y)
    at_zero = model.revenue_map(model.r_standardizer(torch.zeros(1, 3)))
    assert (at_zero >= 0.0).all()
    r = torch.ones(3, 3)
    r[:, 0] = torch.arange(3.0)
    steps = model.revenue_map(model.r_standardizer(r))[:, 0].diff()
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-4, atol=0.0)


def test_what_has_no_diminishing_returns_is_refused_by_name() -> None:
    for options, message in (
        ({"concave": [3]}, "concave must be a list of different indices of the 3 revenues"),
        ({"concave": [0, 0]}, "concave must be a list of different indices"),
        ({"concave": 0}, "concave must be a list of different indices of the 3 revenues, got 0"),
        ({"concave": [0], "response": "continuous"}, "concave needs response='binary'"),
        ({"cost_family": Exponential}, "needs concave: its costs have a lowest value"),
        ({"concave": [0], "cost_family": GCM(2, 3, z_dim=4).cost_net}, "must be HalfCost"),
    ):
        with pytest.raises(ValueError, match=message):
            GCM(2, 3, **options)
    model, (x, r, y) = model_of("one column", torch.float32), rows(20)
    with pytest.raises(ValueError, match="r must be at least 0 in column 0"):
        model.predict(x, r - 5.0)
    with pytest.raises(ValueError, match="r must be at least 0 in column 0"):
        fit(model, x, r - 5.0, y, progress=False)
    with pytest.raises(ValueError, match="columns must be indices of the 3 columns of r"):
        audit_concavity(model, x, r, [7])


def test_a_classifier_has_diminishing_returns_in_columns_by_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"spend": rng.exponential(2.0, 400), "age": rng.normal(40.0, 9.0, 400)})
    y = rng.uniform(size=400) < 0.7 * (1.0 - np.exp(-0.6 * X["spend"]))
    X.loc[:20, "spend"] = np.nan
    options: Any = {"monotonic_cst": {"spend": 1, "age": 1}, "members": 2, "epochs": 6}
    for prior in ("members", "conditional"):
        model = GCMClassifier(concave=["spend"], prior=prior, **options).fit(X, y)
        curve = model.response_curve(X, "spend", np.linspace(0.0, 12.0, 25))["prediction"]
        assert (np.diff(curve) > 0.0).all()
        assert (np.diff(curve, 2) < 1e-6).all()
        start = model.predict_proba(X.assign(spend=0.0))[:, 1]
        goal = float(np.median(start))  # some rows have it at 0, where the column starts
        with pytest.warns(UserWarning, match="beyond the training rows"):
            needed = model.required(X, "spend", goal)["required"].to_numpy()
        assert (needed[start < goal] >= 0.0).all()
        assert (needed[start > goal] == -np.inf).all()
        found = np.isfinite(needed)
        reached = model.predict_proba(X[found].assign(spend=needed[found]))[:, 1]
        assert found.any()
        assert (reached >= goal).all()
    found = audit_table_concavity(model, X, triples=300)
    assert (found.passed, found.triples, found.column) == (True, 300, "spend")
    assert audit_table_concavity(model, X, [0], triples=30).summary().startswith("concavity passed")
    bent = audit_table_concavity(
        lambda X: model.predict_proba(X)[:, 1] ** 8, X, "spend", triples=300
    )
    assert "concavity FAILED" in bent.summary()
    with pytest.raises(ValueError, match="columns must be names or indices of columns of X"):
        audit_table_concavity(model, X, ["income"])
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="column 'spend' of X must be at least 0"):
        model.predict(X.assign(spend=-1.0))
    for cst, told in (({"age": -1}, "which has -: where the prob"), ({"spend": 1}, "age'$")):
        with pytest.raises(ValueError, match=f"concave must name columns of numbers.*{told}"):
            GCMClassifier(monotonic_cst=cst, concave=["age"], epochs=1).fit(X, y)
    with pytest.raises(ValueError, match="concave must be names or indices"):
        GCMClassifier(monotonic_cst={"age": 1}, concave=["income"], epochs=1).fit(X, y)
