"""Figures of one cost: density, shaded mass and draws; arguments of all figures of costs."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats
import torch
from plot_toys import MIDDLE, R, X, at, band, legend, mapped, of_two_costs, quoted, trained
from scipy.integrate import trapezoid

from pyro_gcm import GCM, fit
from pyro_gcm.plots import plot_cost_density, plot_cost_pairs


@pytest.mark.long(keep=6)
@of_two_costs
@pytest.mark.parametrize("cost", [0, 1])
def test_shaded_mass_is_that_of_costs_below_the_revenue(cost: int, options: dict[str, Any]) -> None:
    model = trained(**options)
    ax = plot_cost_density(model, X[0], [MIDDLE], cost=cost)
    if "revenue_map" not in options:  # one number is the revenue of the shown cost
        assert legend(plot_cost_density(model, X[0], MIDDLE[cost], cost=cost)) == legend(ax)
    limits = torch.full((2,), torch.inf, dtype=torch.float64)
    limits[cost] = mapped(model, MIDDLE)[cost]
    wanted = at(model, limits)
    assert 0.02 < wanted < 0.98
    x, low, high = band(ax.collections[0])
    assert trapezoid(high - low, x) == pytest.approx(wanted, abs=1e-3)
    assert (low == 0.0).all()
    assert x[-1] == pytest.approx(float(limits[cost]))
    assert quoted(ax) == pytest.approx(wanted, abs=6e-4)


@of_two_costs
def test_the_area_of_a_density_is_the_probability_of_a_finite_cost(options: dict[str, Any]) -> None:
    model = trained(**options)
    ax = plot_cost_density(model, X[:1])
    infinite = 1.0 - at(model, [1e9, 1e9])
    area = trapezoid(ax.lines[0].get_ydata(), ax.lines[0].get_xdata())
    assert area == pytest.approx(1.0 - infinite, abs=2e-3)
    assert (infinite > 0.001) == ("p0" in options)
    if "p0" in options:
        assert quoted(ax, r"Pr\(c\[0\] infinite\)") == pytest.approx(infinite, abs=6e-4)
    else:
        assert legend(ax) == ["p(c[0] | x)"]


def test_quantile_level_is_mapped_by_the_probit() -> None:
    model = trained(response="quantile")
    ax = plot_cost_density(model, X[0], 0.3)
    limit = scipy.stats.norm.ppf(0.3)
    assert ax.lines[1].get_xdata()[0] == pytest.approx(limit, abs=1e-6)
    assert quoted(ax) == pytest.approx(at(model, [limit]), abs=6e-4)


@pytest.mark.parametrize(("limit", "mass"), [(-1e5, 0.0), (1e5, 1.0)])
def test_distant_revenue_is_not_drawn_but_its_mass_is_stated(limit: float, mass: float) -> None:
    near, far = plot_cost_density(trained(), X[0], 60.0), plot_cost_density(trained(), X[0], limit)
    assert quoted(far) == mass
    assert far.get_xlim()[1] - far.get_xlim()[0] < 2 * (near.get_xlim()[1] - near.get_xlim()[0])
    assert len(far.collections[0].get_paths()) == int(mass)


def test_alternatives_are_named_by_pairs() -> None:
    model = trained(alternatives=2, costs=3, p0="conditional")
    ax = plot_cost_density(model, X[0], MIDDLE, cost=(1, 2))
    assert ax.get_xlabel() == "c[1, 2] (units of the mapped r)"
    limits = torch.full((2, 3), torch.inf, dtype=torch.float64)
    limits[1, 2] = mapped(model, MIDDLE)[1, 2]
    # The cdf is the probability that all costs, also those of alternative 0, are below the limits.
    component = model.cost(X[:1]).component
    finite = (1.0 - component.p0[:, 0, 0]).double()
    base = component.cost.base_dist
    share = torch.special.ndtr((limits[1, 2] - base.loc[:, 0, 1, 2]) / base.scale[:, 0, 1, 2])
    own = (1.0 - component.p0[:, 0, 1]).double()
    assert at(model, limits) == pytest.approx(float((finite * own * share).mean()), abs=1e-6)
    assert quoted(ax) == pytest.approx(float((own * share).mean()), abs=6e-4)
    assert legend(plot_cost_density(model, X[0], MIDDLE, cost=2))[0] == "p(c[0, 2] | x)"


def test_implicit_model_is_drawn_in_the_units_of_its_kernel() -> None:
    model = trained("igcm")
    ax = plot_cost_density(model, X[0], cost=1)
    assert ax.get_xlabel() == "c[1], cost of k[1] (units of k)"
    x, p = ax.lines[0].get_data()
    mean = trapezoid(x * p, x)
    assert mean == pytest.approx(float(model.cost(X[:1]).mean[0, 1]), abs=0.01)


def test_density_of_a_positive_family_is_zero_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyro.distributions as dist

    from pyro_gcm.distributions import families, register_cost_family
    from pyro_gcm.distributions.numerics import normal_log_tails

    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))

    def tail(side: int) -> Any:
        def log_p(d: Any, value: torch.Tensor) -> torch.Tensor:
            log_value = value.clamp(min=1e-300).log()
            return normal_log_tails(log_value, d.loc, d.scale)[side]

        return log_p

    register_cost_family(dist.LogNormal, tail(0), tail(1))
    model = GCM(3, 2, cost_family=dist.LogNormal, num_samples=16)
    ax = plot_cost_density(model, X[0], [-0.2, 0.0])  # the range includes negative values
    x, density = ax.lines[0].get_data()
    assert x[0] < -0.2
    assert (density[x <= 0] == 0).all()
    assert trapezoid(density, x) == pytest.approx(1.0, abs=5e-3)


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


@pytest.mark.parametrize("plot", [plot_cost_density, plot_cost_pairs])
def test_axes_and_labels(plot: Any) -> None:
    ax = plt.subplots()[1]
    assert plot(trained(), X[0], MIDDLE, ax=ax) is ax
    assert ax.get_xlabel() == "c[0], cost of r[0] (units of the data)"
    if plot is plot_cost_density:
        assert ax.get_ylabel() == "probability density (per unit)"
        assert plot(trained(), X[0], label="cost (EUR)").get_xlabel() == "cost (EUR)"
    else:
        assert ax.get_ylabel() == "c[1], cost of r[1] (units of the data)"
        ax = plot(trained(), X[0], labels=("bid (EUR)", "budget (EUR)"))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("bid (EUR)", "budget (EUR)")


def test_figures_do_not_change_the_model_and_the_random_state() -> None:
    model = GCM(3, 2, num_samples=8)
    fit(model, X, R, (R[:, 0] > 60).float(), epochs=1, progress=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    plot_cost_pairs(model, X[0], MIDDLE)
    plot_cost_density(model, X[0], MIDDLE)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
