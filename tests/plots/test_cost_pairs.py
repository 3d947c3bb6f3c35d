"""Figures of two costs: contours, the shaded quadrant and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle
from plot_toys import MIDDLE, X, at, contour_paths, legend, mapped, of_two_costs, quoted, trained

from pyro_gcm.plots import plot_cost_pairs


@pytest.mark.long(keep=("plain", "conditional", "positive_linear"))
@of_two_costs
def test_contours_enclose_the_stated_mass(options: dict[str, Any]) -> None:
    model = trained(**options)
    ax = plot_cost_pairs(model, X[0])
    draws = model.cost(X[:1]).sample((20_000,))[:, 0].numpy()
    draws = draws[np.isfinite(draws).all(1)]
    # From the largest region, with the lowest density at its boundary, to the smallest.
    for path, mass in zip(contour_paths(ax), (0.95, 0.8, 0.5), strict=True):
        inside = path.contains_points(draws).mean()
        assert inside == pytest.approx(mass, abs=0.015)
    assert {text.get_text() for text in ax.texts} == {"50%", "80%", "95%"}


def test_regions_are_the_smallest_of_their_mass() -> None:
    model = trained(prior="standard", objective="joint", dtype=torch.float64)
    cost, g = model.cost(X[:1]), torch.Generator().manual_seed(0)
    ax = plot_cost_pairs(model, X[0], masses=(0.6,))
    (path,) = contour_paths(ax)
    points = 40.0 + 40.0 * torch.rand(4000, 2, generator=g, dtype=torch.float64)
    log_p = cost.log_prob(points[:, None])[:, 0].numpy()
    inside = path.contains_points(points.numpy())
    assert 20 < inside.sum() < 3900
    # Up to the grid, the joint density is higher inside the contour than outside.
    assert log_p[inside].min() > log_p[~inside].max() - 0.05


@of_two_costs
def test_quadrant_is_labelled_with_the_probability_of_the_event(options: dict[str, Any]) -> None:
    model = trained(**options)
    ax = plot_cost_pairs(model, X[:1], MIDDLE)
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


@pytest.mark.parametrize("pair", [((0, 0), (1, 1)), ((1, 0), (1, 1)), (0, (1, 0))])
def test_pairs_within_and_between_alternatives(pair: Any) -> None:
    model = trained(alternatives=2, costs=2, p0="conditional")
    ax = plot_cost_pairs(model, X[0], MIDDLE, pair=pair)
    limits = mapped(model, MIDDLE)
    first, second = ((0, p) if isinstance(p, int) else p for p in pair)
    draws = model.cost(X[:1]).sample((40_000,))[:, 0]
    one, other = draws[(slice(None), *first)], draws[(slice(None), *second)]
    wanted = float(((one < limits[first]) & (other < limits[second])).double().mean())
    assert quoted(ax) == pytest.approx(wanted, abs=0.01)
    either = one.isinf() | other.isinf()
    assert quoted(ax, r"Pr\(.*infinite") == pytest.approx(float(either.double().mean()), abs=0.01)


def test_draws_of_pairs_are_points() -> None:
    model = trained()
    draws = model.cost(X[:1]).sample((50,))
    ax = plot_cost_pairs(model, X[0], pair=(1, 0), draws=draws)
    points = ax.collections[0].get_offsets()
    np.testing.assert_array_equal(points, draws[:, 0].flip(-1).double())
    ax = plot_cost_pairs(model, X[0], pair=(1, 0), draws=draws[:, 0].flip(-1))
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), points)
    assert "draws" in legend(ax)
