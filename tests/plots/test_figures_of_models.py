"""Figures of a model: costs, response curves, and what all figures have alike."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats
import torch
from matplotlib.patches import Rectangle
from plot_toys import (
    MIDDLE,
    OF_TWO_COSTS,
    X,
    at,
    band,
    contour_paths,
    legend,
    mapped,
    quoted,
    trained,
)
from scipy.integrate import trapezoid

from pyro_gcm.plots import plot_cost_density, plot_cost_pairs, plot_response_curves
from pyro_gcm.plots.axes import PALETTE, axes_or_new, next_color, ticks_of_shares

of_two_costs = pytest.mark.parametrize("options", OF_TWO_COSTS, ids=str)

# One cost


@pytest.mark.long(keep=4)
@of_two_costs
def test_the_density_and_the_shaded_mass_are_those_of_the_cost(options: dict[str, Any]) -> None:
    model, state = trained(**options), torch.get_rng_state()
    infinite = 1.0 - at(model, [1e9, 1e9])
    assert (infinite > 0.001) == ("p0" in options)
    for cost in range(2):
        ax = plot_cost_density(model, X[0], [MIDDLE], cost=cost)
        limits = torch.full((2,), torch.inf, dtype=torch.float64)
        limits[cost] = mapped(model, MIDDLE)[cost]
        wanted = at(model, limits)
        assert 0.02 < wanted < 0.98
        x, low, high = band(ax.collections[0])
        assert trapezoid(high - low, x) == pytest.approx(wanted, abs=1e-3)
        assert (low == 0.0).all()
        assert x[-1] == pytest.approx(float(limits[cost]))
        assert quoted(ax) == pytest.approx(wanted, abs=6e-4)
        ax = plot_cost_density(model, X[:1], cost=cost)
        area = trapezoid(ax.lines[0].get_ydata(), ax.lines[0].get_xdata())
        assert area == pytest.approx(1.0 - infinite, abs=2e-3)
        if "p0" in options:
            said = quoted(ax, rf"Pr\(c\[{cost}\] infinite\)")
            assert said == pytest.approx(infinite, abs=6e-4)
        else:
            assert legend(ax) == [f"p(c[{cost}] | x)"]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_quantile_level_is_mapped_by_the_probit() -> None:
    model = trained(response="quantile")
    ax = plot_cost_density(model, X[0], 0.3)  # one number where there is one revenue
    limit = scipy.stats.norm.ppf(0.3)
    assert ax.lines[1].get_xdata()[0] == pytest.approx(limit, abs=1e-6)
    assert quoted(ax) == pytest.approx(at(model, [limit]), abs=6e-4)


def test_alternatives_are_named_by_pairs() -> None:
    model = trained(alternatives=2, costs=3, p0="conditional")
    ax = plot_cost_density(model, X[0], MIDDLE, cost=(1, 2))
    assert ax.get_xlabel() == "c[1, 2] (units of the mapped r)"
    below = model.cost(X[:1]).sample((40_000,))[:, 0, 1, 2] < mapped(model, MIDDLE)[1, 2]
    assert quoted(ax) == pytest.approx(below.double().mean().item(), abs=0.01)
    assert legend(plot_cost_density(model, X[0], MIDDLE, cost=2))[0] == "p(c[0, 2] | x)"


def test_implicit_model_is_drawn_in_the_units_of_its_kernel() -> None:
    model = trained("igcm")
    ax = plot_cost_density(model, X[0], cost=1)
    assert ax.get_xlabel() == "c[1], cost of k[1] (units of k)"
    x, p = ax.lines[0].get_data()
    assert trapezoid(x * p, x) == pytest.approx(float(model.cost(X[:1]).mean[0, 1]), abs=0.01)


def test_draws_are_a_histogram_with_the_same_area() -> None:
    model = trained(p0="constant")
    draws = model.cost(X[:1]).sample((4000,))  # [4000, 1, 2]
    infinite = float(draws[:, 0, 1].isinf().double().mean())
    ax = plot_cost_density(model, X[0], cost=1, draws=draws)
    bars = ax.patches
    heights, width = np.array([bar.get_height() for bar in bars]), bars[0].get_width()
    assert heights.sum() * width == pytest.approx(1.0 - infinite, abs=1e-6)
    for bar in bars:
        edges = bar.get_x(), bar.get_x() + width
        mass = at(model, [np.inf, edges[1]]) - at(model, [np.inf, edges[0]])
        assert abs(bar.get_height() * width - mass) < 4.5 * (mass / 4000) ** 0.5 + 1e-3
    assert legend(ax)[0] == f"draws, {infinite:.1%} of them infinite"
    alone = plot_cost_density(model, X[0], cost=1, draws=draws[:, 0, 1])
    assert [bar.get_height() for bar in alone.patches] == heights.tolist()
    finite = draws[draws.isfinite().all(-1)[:, 0]]
    assert legend(plot_cost_density(model, X[0], draws=finite))[0] == "draws"


# Two costs


@pytest.mark.long(keep=3)
@of_two_costs
def test_contours_and_the_quadrant_have_the_stated_mass(options: dict[str, Any]) -> None:
    model = trained(**options)
    ax = plot_cost_pairs(model, X[:1], MIDDLE)
    draws = model.cost(X[:1]).sample((20_000,))[:, 0].numpy()
    draws = draws[np.isfinite(draws).all(1)]
    # From the largest region, with the lowest density at its boundary, to the smallest.
    for path, mass in zip(contour_paths(ax), (0.95, 0.8, 0.5), strict=True):
        assert path.contains_points(draws).mean() == pytest.approx(mass, abs=0.015)
    assert {text.get_text() for text in ax.texts} == {"50%", "80%", "95%"}
    limits = mapped(model, MIDDLE)
    wanted = at(model, limits)
    assert 0.02 < wanted < 0.98
    assert quoted(ax) == pytest.approx(wanted, abs=6e-4)
    if model.response.is_probability:
        prediction = float(model.predict(X[:1], torch.tensor([MIDDLE])))
        assert quoted(ax) == pytest.approx(prediction, abs=6e-4)
    (area,) = [patch for patch in ax.get_children() if patch.get_label() in legend(ax)[1:2]]
    assert isinstance(area, Rectangle)
    corner = area.get_x() + area.get_width(), area.get_y() + area.get_height()
    assert corner == pytest.approx(limits.tolist(), abs=1e-5)
    assert area.get_x() < ax.get_xlim()[0]
    assert area.get_y() < ax.get_ylim()[0]


def test_regions_are_the_smallest_of_their_mass() -> None:
    model = trained(prior="standard", objective="joint", dtype=torch.float64)
    cost, g = model.cost(X[:1]), torch.Generator().manual_seed(0)
    (path,) = contour_paths(plot_cost_pairs(model, X[0], masses=(0.6,)))
    points = 40.0 + 40.0 * torch.rand(4000, 2, generator=g, dtype=torch.float64)
    log_p = cost.log_prob(points[:, None])[:, 0].numpy()
    inside = path.contains_points(points.numpy())
    assert 20 < inside.sum() < 3900
    # Up to the grid, the joint density is higher inside the contour than outside.
    assert log_p[inside].min() > log_p[~inside].max() - 0.05


def test_pairs_within_and_between_alternatives() -> None:
    model = trained(alternatives=2, costs=2, p0="conditional")
    limits, draws = mapped(model, MIDDLE), model.cost(X[:1]).sample((40_000,))[:, 0]
    for pair in (((0, 0), (1, 1)), ((1, 0), (1, 1)), (0, (1, 0))):
        ax = plot_cost_pairs(model, X[0], MIDDLE, pair=pair)
        first, second = ((0, p) if isinstance(p, int) else p for p in pair)
        one, other = draws[(slice(None), *first)], draws[(slice(None), *second)]
        wanted = float(((one < limits[first]) & (other < limits[second])).double().mean())
        assert quoted(ax) == pytest.approx(wanted, abs=0.01), pair
        either = float((one.isinf() | other.isinf()).double().mean())
        assert quoted(ax, r"Pr\(.*infinite") == pytest.approx(either, abs=0.01), pair


# Both


def test_axes_labels_and_draws_of_a_pair() -> None:
    draws = trained().cost(X[:1]).sample((50,))
    for plot, ylabel in (
        (plot_cost_density, "probability density (per unit)"),
        (plot_cost_pairs, "c[1], cost of r[1] (units of the data)"),
    ):
        ax = plt.subplots()[1]
        assert plot(trained(), X[0], MIDDLE, ax=ax) is ax
        assert ax.get_xlabel() == "c[0], cost of r[0] (units of the data)"
        assert ax.get_ylabel() == ylabel
    assert plot_cost_density(trained(), X[0], label="cost (EUR)").get_xlabel() == "cost (EUR)"
    for given in (draws, draws[:, 0].flip(-1)):  # all costs, or those of the pair
        names = ("bid (EUR)", "budget (EUR)")
        ax = plot_cost_pairs(trained(), X[0], pair=(1, 0), draws=given, labels=names)
        assert (ax.get_xlabel(), ax.get_ylabel()) == names
        points = ax.collections[0].get_offsets()
        np.testing.assert_array_equal(points, draws[:, 0].flip(-1).double())
        assert "draws" in legend(ax)


# Response curves


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


def test_axes_and_labels_of_curves() -> None:
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


# Colours, legends and ticks of all figures


def test_colours_are_different_and_repeat_after_the_last() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
    ax, seen = axes_or_new(None), []
    for _ in range(len(PALETTE) + 1):
        seen.append(next_color(ax))
        ax.errorbar([0], [0], [1])
    assert seen == [*PALETTE, PALETTE[0]]


def test_legends_do_not_cover_curves() -> None:
    for plot in (plot_cost_density, plot_cost_pairs, plot_response_curves):
        fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
        rows = X[:7] if plot is plot_response_curves else X[0]
        plot(trained(p0="constant"), rows, r=MIDDLE, ax=ax)
        fig.canvas.draw()
        box = ax.get_legend().get_window_extent()
        curves = [line.get_path() for line in ax.lines if len(line.get_xdata()) > 2]
        for path in contour_paths(ax) if plot is plot_cost_pairs else curves:
            points = ax.transData.transform(path.vertices)
            assert not any(box.contains(*point) for point in points), plot


def test_ticks_of_shares_are_shares_with_the_decimals_that_they_need() -> None:
    for low, high, ticks in (
        (-0.05, 1.4, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (-0.01, 0.112, ["0%", "2%", "4%", "6%", "8%", "10%"]),
        (0.051, 0.0632, ["5.2%", "5.4%", "5.6%", "5.8%", "6%", "6.2%"]),
    ):
        fig, ax = plt.subplots(layout="constrained")
        ax.set_ylim(low, high)
        ticks_of_shares(ax.yaxis, percent=True)
        fig.canvas.draw()
        labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        assert [text.get_text() for tick, text in labels if low <= tick <= high] == ticks
