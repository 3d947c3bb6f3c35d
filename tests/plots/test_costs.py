"""Figures of one cost and of two: densities, shaded events, contours and draws."""

from __future__ import annotations

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

from pyro_gcm import GCM
from pyro_gcm.plots import plot_cost_density, plot_cost_pairs

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


def test_distant_revenue_is_not_drawn_but_its_mass_is_stated() -> None:
    near = plot_cost_density(trained(), X[0], [60.0, 60.0])
    for limit, mass in ((-1e5, 0.0), (1e5, 1.0)):
        far = plot_cost_density(trained(), X[0], [limit, 60.0])
        assert quoted(far) == mass
        assert np.ptp(far.get_xlim()) < 2 * np.ptp(near.get_xlim())
        assert len(far.collections[0].get_paths()) == int(mass)


def test_alternatives_are_named_by_pairs() -> None:
    model = trained(alternatives=2, costs=3, p0="conditional")
    ax = plot_cost_density(model, X[0], MIDDLE, cost=(1, 2))
    assert ax.get_xlabel() == "c[1, 2] (units of the mapped r)"
    limits = torch.full((2, 3), torch.inf, dtype=torch.float64)
    limits[1, 2] = mapped(model, MIDDLE)[1, 2]
    # The cdf is the probability that all costs, also those of alternative 0, are below the limits.
    component = model.cost(X[:1]).component
    base, finite = component.cost.base_dist, (1.0 - component.p0[:, 0]).double()
    share = torch.special.ndtr((limits[1, 2] - base.loc[:, 0, 1, 2]) / base.scale[:, 0, 1, 2])
    assert at(model, limits) == pytest.approx(float((finite.prod(1) * share).mean()), abs=1e-6)
    assert quoted(ax) == pytest.approx(float((finite[:, 1] * share).mean()), abs=6e-4)
    assert legend(plot_cost_density(model, X[0], MIDDLE, cost=2))[0] == "p(c[0, 2] | x)"


def test_implicit_model_is_drawn_in_the_units_of_its_kernel() -> None:
    model = trained("igcm")
    ax = plot_cost_density(model, X[0], cost=1)
    assert ax.get_xlabel() == "c[1], cost of k[1] (units of k)"
    x, p = ax.lines[0].get_data()
    assert trapezoid(x * p, x) == pytest.approx(float(model.cost(X[:1]).mean[0, 1]), abs=0.01)


def test_costs_that_an_axis_is_compared_with_have_no_unit_of_the_data() -> None:
    model = GCM(X.shape[1], 2, response="survival")
    model.is_trained = True
    label = plot_cost_density(model, X[0]).get_xlabel()
    assert label == f"c[0] (units of the {model.units_of_costs})" == "c[0] (units of the mapped r)"


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


def test_draws_of_pairs_are_points() -> None:
    model = trained()
    draws = model.cost(X[:1]).sample((50,))
    for given in (draws, draws[:, 0].flip(-1)):
        ax = plot_cost_pairs(model, X[0], pair=(1, 0), draws=given)
        points = ax.collections[0].get_offsets()
        np.testing.assert_array_equal(points, draws[:, 0].flip(-1).double())
        assert "draws" in legend(ax)


# Both


def test_axes_and_labels() -> None:
    for plot, ylabel in (
        (plot_cost_density, "probability density (per unit)"),
        (plot_cost_pairs, "c[1], cost of r[1] (units of the data)"),
    ):
        ax = plt.subplots()[1]
        assert plot(trained(), X[0], MIDDLE, ax=ax) is ax
        assert ax.get_xlabel() == "c[0], cost of r[0] (units of the data)"
        assert ax.get_ylabel() == ylabel
    assert plot_cost_density(trained(), X[0], label="cost (EUR)").get_xlabel() == "cost (EUR)"
    ax = plot_cost_pairs(trained(), X[0], labels=("bid (EUR)", "budget (EUR)"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bid (EUR)", "budget (EUR)")
