"""Every kind of predictor is called with what it takes, and other objects are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

from pyro_gcm import GCM
from pyro_gcm.audit import audit_monotonicity, audit_table
from pyro_gcm.audit.audit import called
from pyro_gcm.baselines import MLP

_rng = np.random.default_rng(8)
X, R = _rng.normal(size=(200, 2)), _rng.random((200, 2))
QUICK: dict[str, Any] = {"pairs": 600, "progress": False}


class Model:
    def predict(self, x: Any, r: Any) -> Any:
        return x[:, 0] + r[:, 0]


class Net(nn.Module):
    """A module of x and r with dropout, which is inactive in evaluation mode only."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        assert x.dtype == r.dtype == self.weight.dtype
        return self.dropout(r) @ self.weight


class Scorer(Net):
    """A module whose `forward` is a score and whose `predict` is a probability."""

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        return torch.sigmoid(self(x, r))


#: A predictor by name, the type of the inputs that it is given, and its tolerance.
PREDICTORS: dict[str, tuple[Any, str, float]] = {
    "gcm": (GCM(2, 2), "float64", 2.0**-20),
    "baseline": (MLP(2, 2), "float64", 2.0**-20),
    "score": (Scorer(), "float32", 2.0**-20),
    "score64": (Scorer().double(), "float64", 2.0**-40),
    "object": (Model(), "float64", 2.0**-40),
    "net": (Net(), "float32", 2.0**-20),
    "torch": (lambda x, r: torch.sigmoid(r.sum(1)), "float64", 2.0**-40),
    "numpy": (lambda x, r: np.tanh(np.asarray(r)[:, 0]), "float64", 2.0**-40),
    "integers": (lambda x, r: (r[:, :1] > 0.5).astype(int), "float64", 2.0**-40),
}


def test_predictors_get_what_they_take() -> None:
    for name, (predictor, dtype, tolerance) in PREDICTORS.items():
        call, inputs, needed = called(predictor, X, R, None)
        assert (inputs, needed) == (np.dtype(dtype), tolerance), name
        values, _ = call(X, R)
        assert (values.shape, values.dtype) == ((200,), np.float64), name


def test_modules_of_any_precision_are_audited_in_evaluation_mode_and_restored() -> None:
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        net = Net().to(kind).train()
        found = audit_monotonicity(net, X, R, **QUICK)
        assert found.passed, kind
        assert found.tolerance == max(8.0 * torch.finfo(kind).eps, 2.0**-40)
        assert net.training
        assert net.dropout.training
    assert audit_monotonicity(Net(), X, R, dtype="float32", **QUICK).passed


def test_tables_are_audited_by_name_or_position() -> None:
    rows = pd.DataFrame(_rng.random((200, 3)), columns=["bid", "age", "price"])
    model = LinearRegression().fit(rows, -5.0 * rows.bid + 9.0 * rows.age + rows.price)
    for table, directions, passed in (
        (rows, {"bid": -1, "age": 1}, True),
        (rows, {"bid": 1}, False),
        (rows.to_numpy(), [-1, 0, 1], True),
        (rows.to_numpy(), [0, -1, 0], False),
    ):
        predict = model.predict if isinstance(table, pd.DataFrame) else lambda X: X @ model.coef_
        found = audit_table(predict, table, directions, **QUICK)
        assert found.passed == passed, directions
    matrix = np.concatenate([X, R], 1)
    y = (matrix.sum(1) + _rng.normal(size=200) > 1.0).astype(int)
    for constraints, passed in (([0, 0, 1, 1], True), (None, False)):
        tree = DecisionTreeClassifier(max_depth=5, monotonic_cst=constraints)
        found = audit_table(tree.fit(matrix, y), matrix, [0, 0, 1, 1], **QUICK)
        assert found.passed == passed
        assert found.ties > 0


def failing(x: Any, r: Any) -> Any:
    raise KeyError("missing part")


class ThreeClasses:
    def predict_proba(self, X: Any) -> Any:
        return np.ones((len(X), 3)) / 3.0


WRONG: list[tuple[Any, type[Exception], str]] = [
    (3.0, TypeError, "predictor must be callable or have a method predict, got float"),
    (MLP, TypeError, "predictor is the class MLP, pass an instance of it"),
    (
        failing,
        ValueError,
        r"called with rows of x and r: KeyError: 'missing part'",
    ),
    (lambda x, r: r, ValueError, r"must return shape \(3,\), got \(3, 2\)"),
    (lambda x, r: np.array(["a"] * len(r)), ValueError, "predictor must return real numbers"),
    (lambda x, r: torch.zeros(3) * 1j, ValueError, "predictor must return real numbers"),
    (lambda x, r: np.where(r[:, 0] > 0.9, np.nan, 1), ValueError, "finite values, got nan"),
    (LinearRegression().fit(X, X), ValueError, "audit_table takes predictors of one table"),
]


def test_wrong_predictors_are_refused() -> None:
    for predictor, error, message in WRONG:
        with pytest.raises(error, match=message):
            audit_monotonicity(predictor, X, R, **QUICK)
    for predictor, message in (
        (ThreeClasses(), r"must return two columns, got shape \(3, 3\)"),
        (DecisionTreeClassifier(), "NotFittedError"),
    ):
        with pytest.raises(ValueError, match=message):
            audit_table(predictor, R, [1, 0], **QUICK)
