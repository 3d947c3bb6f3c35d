"""Every kind of predictor is called correctly, and other objects are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression
from torch import Tensor, nn

from pyro_gcm import GCM
from pyro_gcm.audit import ADAPTERS, audit_monotonicity
from pyro_gcm.audit.adapters import adapter_of
from pyro_gcm.audit.predictors import as_predictor
from pyro_gcm.baselines import MLP

_rng = np.random.default_rng(8)
X, R = _rng.normal(size=(200, 2)), _rng.random((200, 2))
MATRIX = np.concatenate([X, R], 1)
DOUBLE = np.dtype("float64")


class Booster:
    """A linear classifier with the methods of those of XGBoost and LightGBM."""

    def __init__(self, *weights: float) -> None:
        self.weights = np.array(weights)

    def predict(self, X: Any, output_margin: bool = False, **options: Any) -> Any:
        return (X @ self.weights > 0).astype(int)

    def predict_proba(self, X: Any, validate_features: bool = True) -> Any:
        p = 1.0 / (1.0 + np.exp(-np.asarray(X) @ self.weights))
        return np.stack([1.0 - p, p], 1)


class Regressor:
    def predict(self, data: Any) -> Any:
        assert isinstance(data, np.ndarray)
        return data.sum(1)


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
    """A module whose `forward` is a score and whose `predict` is a probability without gradient."""

    @torch.no_grad()
    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        return torch.sigmoid(self(x, r))


def sigmoid(x: Any, r: Any) -> Any:
    return torch.sigmoid(r.sum(1))


XR, MATRIX_OF_XR = "call(x, r)", "call(matrix)"
#: By a name: a predictor, how it is called, the types that it takes and gives, if it has slopes.
PREDICTORS: dict[str, tuple[Any, str, str, Any, bool]] = {
    "gcm": (GCM(2, 2), "predict(x, r)", "float64", torch.float32, False),
    "baseline": (MLP(2, 2), "predict(x, r)", "float64", torch.float32, True),
    "score": (Scorer(), "predict(x, r)", "float32", torch.float32, True),
    "score64": (Scorer().double(), "predict(x, r)", "float64", torch.float64, True),
    "object": (Model(), "predict(x, r)", "float64", torch.float64, True),
    "net": (Net(), XR, "float32", torch.float32, True),
    "torch": (sigmoid, XR, "float64", torch.float64, True),
    "numpy": (lambda x, r: np.tanh(np.asarray(r)[:, 0]), XR, "float64", DOUBLE, False),
    "layer": (nn.Linear(4, 1), MATRIX_OF_XR, "float32", torch.float32, True),
    "function": (lambda matrix: matrix[:, 3], MATRIX_OF_XR, "float64", torch.float64, True),
    "boosting": (Booster(0, 0, 1, 1), "predict_proba(matrix)", "float64", DOUBLE, False),
    "regressor": (Regressor(), "predict(matrix)", "float64", DOUBLE, False),
}


@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_are_called_by_their_parameters_with_suitable_inputs(name: str) -> None:
    predictor, adapter, dtype, output, slopes = PREDICTORS[name]
    assert adapter_of(predictor) == adapter
    assert adapter in ADAPTERS
    if isinstance(predictor, nn.Module):
        predictor.eval()
    found = as_predictor(predictor, X, R)
    assert (found.dtype, found.output) == (np.dtype(dtype), output)
    assert (found.derivative is not None) == slopes
    values = found(X, R)
    assert values.shape == (200,)
    assert values.dtype == np.float64
    if found.derivative is not None:  # central differences
        step = np.array([1e-2, 0.0])
        difference = (found(X, R + step) - found(X, R - step)) / 2e-2
        with torch.no_grad():  # which a caller may use
            slope = found.derivative(X, R)[:, 0]
        if isinstance(predictor, Scorer | MLP):  # the slope of the score
            slope *= values * (1.0 - values)
        np.testing.assert_allclose(slope, difference, rtol=1e-3, atol=1e-4)


def test_columns_are_the_positions_of_r_in_the_matrix() -> None:
    weights = np.array([1.0, 10.0, 100.0, 1000.0])

    def linear(matrix: Any) -> Any:
        return np.asarray(matrix) @ weights

    x, r = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
    for columns, matrix in ((None, [1, 2, 3, 4]), ([2, 0], [4, 1, 3, 2]), ([1, 3], [1, 3, 2, 4])):
        found = as_predictor(linear, x, r, columns=columns)
        assert found(x, r).tolist() == [matrix @ weights]
    tensors = as_predictor(lambda m: m @ torch.tensor(weights), x, r, columns=[2, 0])
    assert tensors(x, r).tolist() == [[4, 1, 3, 2] @ weights]
    for columns in ([0], [0, 0], [2, 4], [-1, 0]):
        with pytest.raises(ValueError, match=r"columns must be the 2 different positions of r in"):
            as_predictor(linear, x, r, columns=columns)
    with pytest.raises(ValueError, match="columns requires a predictor of one matrix"):
        as_predictor(Model(), x, r, columns=[0, 1])


def test_columns_are_found_by_name_if_both_sides_have_names() -> None:
    rows = pd.DataFrame(_rng.random((200, 3)), columns=["bid", "age", "price"])
    model = LinearRegression().fit(rows, -5.0 * rows.bid + 9.0 * rows.age + rows.price)
    audited: dict[str, Any] = {"pairs": 300, "progress": False}
    x, bid = rows[["price", "age"]], rows[["bid"]]
    assert not audit_monotonicity(model, x, bid, **audited).passed
    assert audit_monotonicity(model, x, bid, increasing=False, columns=[0], **audited).passed
    found = as_predictor(model, x.to_numpy(), bid.to_numpy(), names=["price", "age", "bid"])
    np.testing.assert_allclose(found(x.to_numpy(), bid.to_numpy()), model.predict(rows))
    with pytest.raises(ValueError, match=r"columns must be \[0\], the positions .*, got \[2\]"):
        audit_monotonicity(model, x, bid, columns=[2], **audited)
    with pytest.raises(ValueError, match=r"predictor takes the columns \['bid', .* x and r have"):
        audit_monotonicity(model, x.rename(columns={"age": "years"}), bid, **audited)


def test_boosting_passes_with_constraints_and_fails_without() -> None:
    y = (MATRIX.sum(1) + _rng.normal(size=200) > 1.0).astype(int)
    for constraints, passed in (([0, 0, 1, 1], True), (None, False)):
        model = HistGradientBoostingClassifier(max_iter=20, monotonic_cst=constraints)
        found = audit_monotonicity(model.fit(MATRIX, y), X, R, pairs=6000, progress=False)
        assert found.passed == passed
        assert found.ties > 0


def test_module_of_any_precision_is_audited_in_evaluation_mode_and_restored() -> None:
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        net = Net().to(kind).train()
        net.weight.requires_grad_(False)
        assert as_predictor(net, X, R).output == kind
        assert audit_monotonicity(net, X, R, pairs=3000, progress=False).passed
        assert net.training
        assert net.dropout.training
    net.eval()
    audit_monotonicity(net, X, R, pairs=30, progress=False)
    assert not net.training


def anything(*arguments: Any) -> Any:
    return arguments[-1][:, 0]


def test_adapter_can_be_given() -> None:
    labels = as_predictor(Booster(0, 0, 1, 1), X, R, adapter="predict(matrix)")
    assert set(labels(X, R)) <= {0.0, 1.0}
    np.testing.assert_array_equal(as_predictor(anything, X, R, adapter="call(x, r)")(X, R), R[:, 0])


def failing(x: Any, r: Any) -> Any:
    raise KeyError("missing part")


class ThreeClasses(Booster):
    def predict_proba(self, X: Any, validate_features: bool = True) -> Any:
        return np.ones((len(X), 3)) / 3.0


@pytest.mark.parametrize(
    ("predictor", "error", "message"),
    [
        (3.0, TypeError, "predictor must be callable or have a method predict, got float"),
        (MLP, TypeError, "predictor is the class MLP, pass an instance of it"),
        (failing, ValueError, r"called as call\(x, r\) with 3 rows .* KeyError: 'missing part'"),
        (lambda x, r: r, ValueError, r"must return shape \(3,\), got \(3, 2\)"),
        (lambda x, r: np.array(["a"] * len(r)), ValueError, "predictor must return numbers"),
        (lambda x, r: torch.zeros(3) * 1j, ValueError, "predictor must return real numbers"),
        (HistGradientBoostingClassifier(), ValueError, "NotFittedError"),
        (ThreeClasses(), ValueError, r"must return two columns, got shape \(3, 3\)"),
        (lambda x, r: np.where(r[:, 0] > 0.9, np.nan, 1), ValueError, "finite values, got nan"),
        (anything, ValueError, r"cannot determine from .* how to call function"),
        ((Model(), "predict_proba(matrix)"), TypeError, r"Model cannot be called as predict_proba"),
        ((Model(), "predict"), ValueError, "adapter must be one of"),
    ],
)
def test_wrong_predictors_are_refused(predictor: Any, error: type[Exception], message: str) -> None:
    predictor, adapter = predictor if isinstance(predictor, tuple) else (predictor, "auto")
    with pytest.raises(error, match=message):
        audit_monotonicity(predictor, X, R, adapter=adapter, pairs=3000, progress=False)
