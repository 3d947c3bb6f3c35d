"""Columns that float32 cannot hold, in a model of float32: the numbers are those of x, r and y
near 0, moved; see `Standardizer`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, baselines, fit, load, save
from pyro_gcm.io.export import export
from pyro_gcm.responses import Binary

#: Offset and factor; float32 resolves 3e9 to 256, and 1e39 is above its largest number.
MOVES = {
    "1e8 spreads": (1e8 + 3.3, 1.0),
    "3e9 spreads": (3e9 + 100.3, 1.0),
    "times 1e39": (0.0, 1e39),
    "times 1e-90, far": (-3e-81, 1e-90),
}
EXTREME = {**MOVES, "times 1e-300": (0.0, 1e-300), "near 1e300": (2e299, 2e299)}
KINDS = (
    *("plain", "continuous", "quantile", "members", "splines and logistic costs"),
    *("implicit", "implicit, continuous", "joint", "joint, continuous"),
)
QUICK: dict[str, Any] = {"epochs": 1, "num_particles": 4, "seed": 0, "progress": False}


class Rows:
    """Rows x, r and y moved to other units, and what takes results back."""

    def __init__(self, kind: str, offset: float = 0.0, factor: float = 1.0) -> None:
        g = torch.Generator().manual_seed(0)
        like: Any = {"generator": g, "dtype": torch.float64}
        x, r = torch.randn(60, 3, **like), torch.randn(60, 2, **like)
        y = r.sum(1) + x[:, 0] + torch.randn(60, **like)
        self.offset, self.factor = offset, factor
        self.is_real = zoo.KINDS[kind].response != "binary"
        self.x, self.r = x * factor + offset, r * factor + offset
        self.y = y * factor + offset if self.is_real else (y > 0).double()
        if kind == "quantile":
            self.r = torch.sigmoid(r[:, :1])
        self.level = 0.3 * factor + offset if self.is_real else 0.6

    def back(self, values: Tensor) -> Tensor:
        """Values in the units of the columns as they were."""
        return (values.double() - self.offset) / self.factor

    def of_y(self, values: Tensor) -> Tensor:
        """Predictions as they were."""
        return self.back(values) if self.is_real else values.double()


def fitted(kind: str, rows: Rows) -> Any:
    model = zoo.build(kind, torch.float32)
    objective = "joint" if kind.startswith("joint") else None
    fit(model, rows.x, rows.r, rows.y, **QUICK, objective=objective)
    return model


def answers(kind: str, model: Any, rows: Rows) -> dict[str, Tensor]:
    """What a model says of the rows, as if they had not been moved."""
    x, r, y = rows.x[:20], rows.r[:20], rows.y[:20]
    found = {
        "predict": rows.of_y(model.predict(x, r)),
        "predict_draws": rows.of_y(model.predict_draws(x, r)),
        "surface": rows.of_y(model.surface(x, r)),
        "surface_draws": rows.of_y(model.surface_draws(x[:3], r).values),
        "double": rows.of_y(copy.deepcopy(model).double().predict(x, r)),
        "there and back": rows.of_y(copy.deepcopy(model).double().float().predict(x, r)),
    }
    if hasattr(model.predictive(x, r), "cdf"):
        found["cdf"] = model.predictive(x, r).cdf(y).double()
    if model.costs_have_units:
        draws = model.cost_posterior(x, r, y, num_samples=50, progress=False)
        if isinstance(model.response, Binary):
            assert torch.equal((draws["c"] < r).all(-1), (y == 1.0).expand(50, -1))
        found["cost"] = rows.back(model.cost(x).mean)
        if model.objective != "joint":  # there rounding decides which draws are chosen
            found["c"] = rows.back(draws["c"])
    if isinstance(model, GCM) and kind != "quantile":
        required = model.required_revenue(x, rows.level)
        found["required_revenue"] = rows.back(required).clamp(-1e3, 1e3)
    if model.objective == "joint":
        some = model.simulate(size=5, seed=2)
        found |= {"x": rows.back(some["x"]), "r": rows.back(some["r"])}
    return found


@pytest.mark.filterwarnings("ignore:.*effective sample size")
@pytest.mark.long(keep=4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", EXTREME)
def test_predictions_are_those_of_columns_near_0(kind: str, move: str, tmp_path: Path) -> None:
    near, far = Rows(kind), Rows(kind, *EXTREME[move])
    if move not in MOVES and "continuous" in kind:
        with pytest.raises(RuntimeError, match="is nan in batch"):
            fitted(kind, far)
        return
    model = fitted(kind, far)
    assert all(v.isfinite().all() for v in model.state_dict().values())
    assert model.predict(far.x, far.r).dtype == (torch.float64 if far.is_real else torch.float32)
    wanted, found = (answers(kind, fitted(kind, near), near), answers(kind, model, far))
    for name, values in found.items():
        torch.testing.assert_close(values, wanted[name], rtol=3e-4, atol=3e-4, msg=name)
    again = load(save(model, tmp_path / "model"))
    fresh = copy.deepcopy(model)
    fresh.learn_units(near.x, near.r, near.y)
    fresh.load_state_dict(model.state_dict())
    for other in (again, fresh, copy.deepcopy(model)):
        assert torch.equal(other.predict(far.x, far.r), model.predict(far.x, far.r))
        assert other.x_standardizer.dtype == torch.float32
    if kind == "members":
        program = torch.export.load(export(model, tmp_path / "gcm.pt2")).module()
        torch.testing.assert_close(
            program(far.x, far.r), model.predict(far.x, far.r).double(), rtol=0, atol=1e-5
        )


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("move", MOVES)
def test_a_baseline_reads_columns_far_from_0(response: str, move: str) -> None:
    kind = "plain" if response == "binary" else "continuous"
    found = []
    for rows in (Rows(kind), Rows(kind, *MOVES[move])):
        torch.manual_seed(0)
        model = baselines.SMM(3, 2, response=response)
        baselines.fit(model, rows.x, rows.r, rows.y, epochs=2, seed=0, progress=False)
        found.append(rows.of_y(model.predict(rows.x, rows.r)))
        pairs = model.surface(rows.x, rows.r).diagonal()
        torch.testing.assert_close(rows.of_y(pairs), found[-1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(*found, rtol=3e-4, atol=3e-4)


def test_values_far_from_all_rows_have_predictions() -> None:
    model = fitted("members", Rows("members"))
    far = torch.tensor([[-1e300, -1e300], [1e300, -1e300], [1e300, 1e300]], dtype=torch.float64)
    x = torch.cat([far, far[:, :1]], 1)
    assert (model.surface(x, far).diff(dim=1) >= 0.0).all()
    for p in (model.predict(x, far), model.surface(x, far)):
        assert ((p >= 0.0) & (p <= 1.0)).all()


@pytest.mark.parametrize("name", ["x", "r", "y"])
def test_numbers_without_a_difference_are_refused_by_column(name: str) -> None:
    rows = Rows("continuous")
    columns = {"x": rows.x, "r": rows.r, "y": rows.y}
    columns[name].view(-1)[5] = 1.7e308
    with pytest.raises(ValueError, match=rf"{name} must have numbers of at most .* 1\.7e\+308"):
        fit(GCM(3, 2, response="continuous"), **columns, **QUICK)
