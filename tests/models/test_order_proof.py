"""What is known of the order of predictions: models that are covered, and parts that are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pyro_gcm import GCM, audit_monotonicity
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier
from pyro_gcm.models import MemberGCM, order_proof
from pyro_gcm.nets import PositiveLinear

X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def this_processor_was_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others than those of the table are not covered, wherever the tests run."""
    version = ".".join(torch.__version__.split(".")[:2])
    swept = {(version, torch.backends.cpu.get_cpu_capability())}
    monkeypatch.setattr(order_proof, "SWEPT", swept)


def ready(make: type[GCM] = GCM, **options: Any) -> GCM:
    """A model in standard units, whose weights are those that it starts with."""
    model = make(2, 2, seed=0, **options)
    model.objective = "conditional"
    return model


class Cube(nn.Module):
    """Increases, which the library cannot know."""

    def forward(self, r: torch.Tensor) -> torch.Tensor:
        """Cubes."""
        return r**3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"costs": 3, "revenue_map": "piecewise_linear", "cost_family": "logistic"},
        {"costs": 2, "revenue_map": "positive_linear", "p0": "constant"},
        {"revenue_map": "probit", "cost_family": "laplace"},
        {"revenue_map": "sigmoid"},
    ],
    ids=str,
)
def test_the_order_of_models_of_one_alternative_is_proved(options: dict[str, Any]) -> None:
    proof = ready(**options).order_proof(X)
    assert proof.proved
    assert proof.covered
    assert str(proof) == "order proved: no step of the computation can let a prediction fall"


def test_alternatives_and_maps_in_float64_were_measured() -> None:
    for model, part in (
        (ready(MemberGCM), "alternatives: log1p and expm1"),
        (ready(revenue_map="probit").double(), "revenue map: ndtri in float64"),
    ):
        proof = model.order_proof(X)
        assert proof.covered
        assert not proof.proved
        assert part in str(proof)


def wrong_sign() -> GCM:
    model = ready(costs=3, revenue_map="piecewise_linear")
    model.revenue_map.get_buffer("units.scale")[1] *= -1.0
    return model


class OwnMap(GCM):
    """A subclass that maps revenues itself."""

    def mapped(self, r: torch.Tensor, covariates: torch.Tensor | None = None) -> torch.Tensor:
        """Minus the revenues."""
        return -super().mapped(r, covariates)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (wrong_sign, "revenue map: its scale has numbers below 0"),
        (lambda: ready(revenue_map=Cube()), "revenue map: a Cube is not among those"),
        (lambda: ready(response="continuous"), "outcome: the response 'continuous'"),
        (lambda: ready(OwnMap), "outcome: a story of its own"),
    ],
)
def test_what_is_not_covered_is_named(make: Any, told: str) -> None:
    proof = make().order_proof(X)
    assert not proof.covered
    assert str(proof).startswith("not proved (")
    assert told in str(proof)


def test_costs_that_are_not_steep_and_processors_that_were_not_swept_are_not_covered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_proof, "LEAST_STEEPNESS", 1e6)
    assert "costs: their steepness 1 / scale goes down to" in str(ready().order_proof(X))
    monkeypatch.setattr(order_proof, "LEAST_STEEPNESS", 0.0)
    monkeypatch.setattr(order_proof, "SWEPT", set())
    assert "functions: torch " in str(ready().order_proof(X))


def test_weights_of_a_subclass_are_not_taken_for_those_of_the_library() -> None:
    class Signed(PositiveLinear):
        @property
        def weight(self) -> torch.Tensor:
            return self.raw_weight.abs()

    assert not ready(costs=2, revenue_map=Signed(2, (2,))).order_proof(X).covered


def test_an_audit_says_so_beside_its_search() -> None:
    r = torch.rand(len(X), 2, generator=torch.Generator().manual_seed(1))
    audit = audit_monotonicity(ready(), X, r, pairs=60, progress=False)
    assert audit.proof.proved
    assert "order proved" in audit.summary()
    down = audit_monotonicity(ready(), X, r, increasing=False, pairs=60, progress=False)
    assert down.proof is None


def test_the_audit_of_an_estimator_has_the_proof_of_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, y = X.numpy(), (X.sum(1) > 0).numpy()
    known: Any = {"monotonic_cst": [1, 0], "epochs": 1, "alternatives": 1, "members": 2}
    model = GCMClassifier(**known, hidden=4).fit(table, y)
    quick: Any = {"pairs": 9, "progress": False}
    audit = audit_table(model, table, **quick)
    assert audit.proof.proved
    assert "order proved: no step" in audit.summary()
    assert audit_table(model, table, [1, 1], **quick).proof is None
    monkeypatch.setattr(order_proof, "SWEPT", set())
    assert not audit_table(model, table, **quick).proof.covered
