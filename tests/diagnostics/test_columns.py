"""What a column does: its average effect, and the directions that data suggest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import zoo
from scipy.stats import norm
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.diagnostics import marginal_effects, suggest_directions
from pyro_gcm.diagnostics.columns import _holm, _table
from pyro_gcm.plots import plot_directions, plot_marginal_effects


@pytest.mark.parametrize("kind", ["plain", "continuous", "members", "implicit", "survival"])
def test_effects_are_those_of_small_differences(kind: str) -> None:
    model, data = zoo.trained(kind), zoo.rows_of(kind, 40)
    found = marginal_effects(model, data.x, data.r)
    steps = 0.2 * data.x.std(0) if model.members else torch.full((3,), 3e-4).double()
    for j, name in enumerate(found.index):
        step = steps[j].item() if j < 3 else 1e-4 * data.r[:, j - 3].std().item()
        column = torch.zeros(len(found)).double()
        column[j] = step
        up, down = (
            model.differentiable(data.x + s * column[:3], data.r + s * column[3:]).detach()
            for s in (1.0, -1.0)
        )
        slope = (up - down) / (2.0 * step)
        if j >= 3:
            slope = slope * data.r[:, j - 3] / model.predict(data.x, data.r)
            assert found["kind"][name] == "elasticity"
        assert found["estimate"][name] == pytest.approx(slope.mean().item(), rel=1e-4, abs=1e-9)
        half = norm.isf(0.05) * slope.std().item() / 40**0.5
        assert found["upper"][name] - found["estimate"][name] == pytest.approx(half, rel=1e-3)


def probit(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x, r = torch.randn(count, 2, generator=g), 1.0 + torch.rand(count, 1, generator=g)
    cost = 1.5 + 0.5 * x[:, :1] + 0.5 * torch.randn(count, 1, generator=g)
    return x, r, (cost < r).all(1).float()


def test_the_effects_of_a_probit_model_are_found_and_plotted() -> None:
    x, r, y = probit(3000, 0)
    models = []
    for seed in range(2):
        rows = torch.from_numpy(np.random.default_rng(seed).integers(0, 3000, 3000))
        models.append(GCM(2, 1, seed=seed))
        fit(models[-1], x[rows], r[rows], y[rows], epochs=12, batch_size=256, progress=False)
    u = (r[:, 0] - 1.5 - 0.5 * x[:, 0]) / 0.5
    density, p = torch.exp(-0.5 * u.square()) / (2.0 * torch.pi) ** 0.5, torch.special.ndtr(u)
    truth = [-density.mean().item(), 0.0, (2.0 * r[:, 0] * density / p).mean().item()]
    table = pd.DataFrame(x.numpy(), columns=["age", "$tilt"])
    found = marginal_effects(models[0], table, r, replicates=models, r_names=["price"])
    assert list(found.index) == ["age", "$tilt", "price"]
    np.testing.assert_allclose(found["estimate"][:2], truth[:2], atol=0.03)
    assert found["estimate"]["price"] == pytest.approx(truth[2], rel=0.2)
    assert (found["lower"] <= found["upper"]).all()
    assert found["upper"]["age"] < 0.0 < found["lower"]["price"]
    ax = plot_marginal_effects(found)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["$tilt", "age"]
    assert plot_marginal_effects(found, "elasticity").get_xlabel() == "average elasticity"


def test_wrong_options_are_refused() -> None:
    model, data = zoo.build("plain"), zoo.rows(count=4)
    right: dict[str, Any] = {"model": model, "x": data.x, "r": data.r}
    for wrong, message in (
        ({"level": 90}, "level must be a probability in"),
        ({"x_names": ["a", "b"]}, "x_names must have 3 names, got 2"),
        ({"r": data.r[:2]}, "row counts differ"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            marginal_effects(**{**right, **wrong})
    with pytest.raises(ValueError, match=r"kind must be one of .*, got 'slope'"):
        plot_marginal_effects(marginal_effects(model, data.x, data.r), "slope")


# Suggested directions: a wrong one is never suggested


EVIDENCE = {"up": "rising", "down": "falling", "hump": "neither", "noise": "little"}


def simulated(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.normal(size=rows) for name in EVIDENCE})
    X["noise"] = 0.7 * X["noise"] + 0.5 * X["up"]  # correlated with a column that matters
    X["town"] = [(None, "a", "b")[k] for k in rng.integers(3, size=rows)]
    score = np.tanh(2 * X["up"]) - np.maximum(X["down"], 0) - X["hump"] ** 2 + (X["town"] == "a")
    return X, score.to_numpy() + 0.5 * rng.normal(size=rows)


def test_known_directions_are_found_in_columns_of_numbers() -> None:
    X, y = simulated(800, seed=1)
    X.loc[::7, "up"] = np.nan
    found = suggest_directions(X, y, folds=3, progress=False)
    assert found["evidence"].to_dict() == EVIDENCE
    assert found["suggested"].to_list() == [1, -1, 0, 0]
    assert (found["rising_low"] <= found["rising"]).all()
    again = suggest_directions(X, y, columns=["hump", "up"], folds=3, progress=False)
    assert again["falling"].to_list() == found["falling"][["hump", "up"]].to_list()
    labels = [text.get_text() for text in plot_directions(found).get_yticklabels()]
    assert sorted(labels) == sorted(f"{name}: {kind}" for name, kind in EVIDENCE.items())


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_of_two_classes_suggest_no_wrong_sign(seed: int) -> None:
    X, y = simulated(300, seed)
    found = suggest_directions(X, np.where(y > np.median(y), "yes", "no"), folds=3, progress=False)
    assert found["suggested"]["up"] >= 0 >= found["suggested"]["down"]
    assert found["suggested"]["noise"] == 0


def test_a_direction_that_costs_little_beside_the_other_holds_mostly() -> None:
    cost = np.array([1.0, 1.1, 0.9, 1.0] * 10)
    found = _table({"a": (cost, 20 * cost), "b": (20 * cost, cost), "c": (2 * cost, cost)})
    assert found["evidence"].to_list() == ["mostly rising", "mostly falling", "neither"]
    assert found["suggested"].to_list() == [0, 0, 0]
    # The second p-value of Holm's procedure is compared with 0.05 / 2, the third with 0.05.
    assert _holm(np.array([0.04, 0.001, 0.03])).tolist() == [False, True, False]
    assert _holm(np.array([0.04, 0.001, 0.02])).tolist() == [True, True, True]


def test_wrong_input_is_named() -> None:
    for changed, message in (
        ({"y": ["a", "b", "c"] * 10}, r"y must have two classes or be numbers, got 3 classes"),
        ({"y": [1.0] * 30}, r"y must have two classes or be numbers, got 1 classes"),
        ({"y": [1.0, np.nan] * 15}, r"y must have no missing values"),
        ({"y": [0.0, 1.0]}, r"y must have 30 entries, one for each row of X, got 2"),
        ({"columns": ["town"]}, "town"),
        ({"folds": 1}, r"folds must be an integer of at least 2"),
    ):
        X, y = simulated(30)
        with pytest.raises((ValueError, KeyError), match=message):
            suggest_directions(**{"X": X, "y": y, "progress": False, **changed})
