"""Curves of a revenue and of a column: lines, bands, histograms and legends."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from plot_toys import MIDDLE, X, band, legend, trained

from pyro_gcm.plots import plot_feature_curve, plot_response_curves

MODELS: list[dict[str, Any]] = [
    {},
    {"prior": "categorical"},
    {"alternatives": 2, "costs": 2},
    {"dtype": torch.float64},
    {"prior": "standard", "objective": "joint"},
    {"response": "continuous"},
    {"kind": "igcm"},
    {"kind": "igcm", "k_dim": 1},
    {"kind": "igcm", "response": "continuous"},
]


def brute_force(values: Any, weights: Any, probability: float) -> float:
    """The smallest value whose cumulative weight reaches the probability, in exact arithmetic."""
    wanted = Fraction(probability).limit_denominator(1000)
    shares = [Fraction(float(w)).limit_denominator(10**6) for w in weights]
    for value in sorted(values):
        held = sum(s for v, s in zip(values, shares, strict=True) if v <= value)
        if held >= wanted * sum(shares):
            return float(value)
    raise AssertionError


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("num_samples", [None, 48])
@pytest.mark.parametrize("options", MODELS, ids=str)
def test_line_is_the_prediction_and_the_band_an_interval_of_those_given_z(
    options: dict[str, Any], num_samples: int | None
) -> None:
    model, grid = trained(**options), torch.linspace(48.0, 75.0, 5, dtype=torch.float64)
    shown = {"revenue": 1, "r": MIDDLE, "grid": grid, "num_samples": num_samples}
    ax = plot_response_curves(model, X[:2], **shown, probability=0.8)
    revenues = torch.stack([torch.full((5,), MIDDLE[0], dtype=torch.float64), grid], 1)
    draws = model.surface_draws(X[:2], revenues, num_samples=num_samples)
    weights = torch.ones_like(draws.values) if draws.weights is None else draws.weights
    wanted = model.surface(X[:2], revenues, num_samples=num_samples)
    for row in range(2):
        line = ax.lines[row].get_ydata()
        np.testing.assert_array_equal(ax.lines[row].get_xdata(), grid)
        np.testing.assert_array_equal(line, wanted[row])
        x, low, high = band(ax.collections[row])
        np.testing.assert_array_equal(x, grid)
        for i in range(5):
            shares = draws.values[:, row, i].double().numpy(), weights[:, row, i].numpy()
            assert low[i] == brute_force(*shares, 0.1)
            assert high[i] == brute_force(*shares, 0.9)
        values = draws.values[:, row].double()
        assert (values.amin(0).numpy() <= line + 1e-5 * abs(line)).all()
        assert (line <= values.amax(0).numpy() + 1e-5 * abs(line)).all()


def test_line_and_band_of_a_strict_model_are_increasing() -> None:
    ax = plot_response_curves(trained(), X[:4])
    for line, area in zip(ax.lines, ax.collections, strict=False):
        _, *edges = band(area)
        for curve in (line.get_ydata(), *edges):
            assert (np.diff(curve) >= 0).all()
            assert curve[-1] > curve[0]


def test_default_grid_covers_the_training_rows_or_levels_from_0_02_to_0_98() -> None:
    model = trained()
    loc, scale = model.r_standardizer.loc, model.r_standardizer.scale
    ax = plot_response_curves(model, X[:1], revenue=1)
    x = ax.lines[0].get_xdata()
    np.testing.assert_allclose(x[[0, -1]], [loc[1] - 2.5 * scale[1], loc[1] + 2.5 * scale[1]])
    others = torch.stack([loc[:1].expand(len(x)).double(), torch.as_tensor(x)], 1)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.surface(X[:1], others)[0])
    ax = plot_response_curves(trained(response="quantile"), X[:2])
    np.testing.assert_allclose(ax.lines[1].get_xdata()[[0, -1]], [0.02, 0.98])
    assert ax.get_xlabel() == "quantile level (no unit)"
    assert ax.get_ylabel() == "quantile of y (units of the data)"


def test_rows_may_have_different_revenues() -> None:
    model, given = trained(), np.array([[60.0, 52.0], [60.0, 68.0]])
    ax = plot_response_curves(model, X[[0, 0]], r=given, grid=[55.0, 60.0, 65.0])
    for line, second in zip(ax.lines, given[:, 1], strict=True):
        revenues = torch.tensor([[55.0, second], [60.0, second], [65.0, second]])
        np.testing.assert_array_equal(line.get_ydata(), model.surface(X[:1], revenues)[0])
    assert given[0, 0] == 60.0, "the argument was changed"


def test_axes_and_labels() -> None:
    ax = plt.subplots()[1]
    names = {"labels": ["young", "old"], "revenue_name": "bid (EUR)", "outcome_name": "won"}
    assert plot_response_curves(trained(), X[:2], ax=ax, **names) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bid (EUR)", "Pr(won = 1 | x, r)")
    assert legend(ax) == ["young", "old", "90% over z"]
    ax = plot_response_curves(trained(response="continuous"), X[:2], band=False)
    assert ax.get_xlabel() == "r[0] (units of the data)"
    assert ax.get_ylabel() == "mean of y (units of the data)"
    assert legend(ax) == ["row 0", "row 1"]
    assert not ax.collections


def test_ticks_of_probabilities_are_probabilities() -> None:
    ax = plot_response_curves(trained(), X[:7], r=[75.0, 75.0])
    ticks = ax.get_yticks()
    assert min(ticks) > -0.001
    assert max(ticks) < 1.001


def test_the_histogram_stands_below_the_curve_and_the_legend_beside_it() -> None:
    debt = np.linspace(0.0, 40.0, 9)
    for sign in (1.0, -1.0):
        risk = 0.5 + sign * 0.01 * debt
        curve = pd.DataFrame(
            {"debt": debt, "prediction": risk, "lower": risk - 0.02, "upper": risk + 0.02}
        )
        fig, ax = plt.subplots(layout="constrained")
        rows = [*debt, None, 3.0]
        plot_feature_curve(curve, rows=rows, base_rate=0.5, percent=True, ax=ax)
        fig.canvas.draw()
        assert legend(ax) == ["mean prediction", "range of the members", "rate in these rows"]
        assert sum(bar.get_height() > 0 for bar in ax.patches) == len({*debt, 3.0})
        top = max(bar.get_window_extent().ymax for bar in ax.patches)
        box = ax.get_legend().get_window_extent()
        for end in ("lower", "prediction", "upper"):
            points = ax.transData.transform(curve[["debt", end]].to_numpy())
            assert points[:, 1].min() > top
            assert not any(box.contains(*point) for point in points)
        assert all(text.get_text().endswith("%") for text in ax.get_yticklabels())


def test_levels_are_ticks() -> None:
    curve = pd.DataFrame({"grade": ["low", "high"], "prediction": [0.1, 0.2]})
    ax = plot_feature_curve(curve, rows=["low", "low", "high", None])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["low", "high"]
    low, high = (bar.get_height() for bar in ax.patches)
    assert low == 2 * high > 0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("grade", "prediction")
