"""Average marginal effects and elasticities, against differences and a known answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
import zoo
from scipy.stats import norm
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.diagnostics import marginal_effects
from pyro_gcm.plots import plot_marginal_effects


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


def test_names_are_those_of_a_table_of_any_kind() -> None:
    model, r = GCM(2, 1), torch.full((4, 1), 0.5)
    table = pd.DataFrame({"age": range(4), "debt": range(4)}, dtype=float)
    for x, names in (
        (pa.Table.from_pandas(table), ["age", "debt", "r[0]"]),
        (pl.from_pandas(table), ["age", "debt", "r[0]"]),
        (table.to_numpy(), ["x[0]", "x[1]", "r[0]"]),
    ):
        assert list(marginal_effects(model, x, r).index) == names


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
