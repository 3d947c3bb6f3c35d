"""The latent costs of one row: densities, and probabilities to be below the revenues."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, share
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.plots.axes import PALETTE, Array, as_it_is, axes_or_new, legend_above, numbers
from pyro_gcm.plots.cost_parts import (
    Cost,
    cost_index,
    cost_label,
    costs_of_row,
    draws_of,
    thresholds,
)

_CURVE, _EVENT, _DRAWS = PALETTE[0], PALETTE[1], PALETTE[2]


@torch.no_grad()
def plot_cost_density(
    model: GCM | IGCM,
    x: ArrayLike,
    r: ArrayLike | None = None,
    *,
    cost: int | tuple[int, int] = 0,
    draws: ArrayLike | None = None,
    num_samples: int | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Density of one cost given x, with Pr(c < r) shaded: the paper's Figure 3 in one dimension.

    If the cost may be infinite, the legend shows the probability of that, and the area under the
    curve is one minus this probability.

    :param model: a `GCM`, or an `IGCM`, whose costs are in the units of k.
    :param x: one row, [x_dim] or [1, x_dim], in the units of the data.
    :param r: revenues [r_dim] of a `GCM` in the units of the data, to which the revenue map is
        applied.
    :param cost: index of the cost, or (alternative, index); an index alone is of alternative 0.
    :param draws: draws of this cost [S], or of all costs of the row [S, 1, (G,) K], such as those
        of `cost_posterior` given y, in the units of `model.cost(x)`; shown as a histogram.
    :param num_samples: number of draws of z, by default that of the model.
    :param label: name of the cost with its unit, for the axis.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for several rows of x, a cost index out of range, or r with an `IGCM`.

    >>> from matplotlib.figure import Figure
    >>> from pyro_gcm import GCM
    >>> ax = plot_cost_density(GCM(3, 2), torch.zeros(3), torch.zeros(2), ax=Figure().subplots())
    >>> ax.get_xlabel()
    'c[0], cost of r[0] (units of the data)'
    """
    index = cost_index("cost", cost, model.cost_shape)
    mixture = costs_of_row(model, x, num_samples)
    limit = None if r is None else thresholds(model, r, [index])[0]
    drawn = None if draws is None else draws_of(draws, mixture, [index])[:, 0]
    ax = axes_or_new(ax)

    one = Cost(mixture, index)
    weights = one.weights * one.finite
    points = one.points(limit, 401)
    if limit is not None and points[0] <= limit <= points[-1]:
        points[(points - limit).abs().argmin()] = limit  # where the shaded region ends
    density = numbers("density", one.density(points) @ weights)
    places = numbers("points", points)
    if drawn is not None:
        _histogram(ax, drawn)
    ax.plot(places, density, color=_CURVE, label=f"p({one.name} | x)")
    if limit is not None:
        mass, below = float(one.below(points.new_tensor([limit]))[0] @ weights), places <= limit
        event = f"Pr({one.name} < {limit:.4g}) = {mass:.3f}"
        style: Any = {"color": _EVENT, "alpha": 0.35, "linewidth": 0, "label": event}
        ax.fill_between(places[below], density[below], **style)
        if below.any() and not below.all():
            ax.axvline(limit, color=_EVENT, linestyle="--", linewidth=1.0)
    _note_infinite(ax, one.name, 1.0 - float(weights.sum()))
    legend_above(ax, bottom=0.0)
    ax.set_xlabel(label or cost_label(model, index))
    ax.set_ylabel("probability density (per unit)")
    return as_it_is(ax)


@torch.no_grad()
def plot_cost_pairs(
    model: GCM | IGCM,
    x: ArrayLike,
    r: ArrayLike | None = None,
    *,
    pair: tuple[int | tuple[int, int], int | tuple[int, int]] = (0, 1),
    masses: tuple[float, ...] = (0.5, 0.8, 0.95),
    draws: ArrayLike | None = None,
    num_samples: int | None = None,
    labels: tuple[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Contours of the joint density of two costs given x: the paper's Figure 3.

    The quadrant in which both costs are below their revenues is shaded, with its probability in the
    legend. If the model has only these two costs and a binary response, it is Pr(y = 1). A contour
    encloses the smallest region with the given probability mass, conditionally on finite costs.

    :param model, x, r, num_samples: as for `plot_cost_density`.
    :param pair: the two costs, each an index or (alternative, index).
    :param masses: probability masses of the regions, in (0, 1).
    :param draws: draws of the two costs [S, 2], or of all costs, as for `plot_cost_density`.
    :param labels: names of the two costs with their units.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for several rows of x, cost indices that are equal or out of range, masses
        outside (0, 1), or r with an `IGCM`.

    >>> from matplotlib.figure import Figure
    >>> from pyro_gcm import GCM
    >>> ax = plot_cost_pairs(GCM(3, 2), torch.zeros(3), torch.zeros(2), ax=Figure().subplots())
    >>> ax.get_ylabel()
    'c[1], cost of r[1] (units of the data)'
    """
    indices = [cost_index("pair", index, model.cost_shape) for index in pair]
    if len(set(indices)) != 2 or len(indices) != 2:
        raise ValueError(f"pair must be two different costs, got {pair!r}")
    for mass in masses:
        share("masses", mass)
    mixture = costs_of_row(model, x, num_samples)
    limits: list[Any] = [None, None] if r is None else thresholds(model, r, indices)
    drawn = None if draws is None else draws_of(draws, mixture, indices)
    ax = axes_or_new(ax)

    first, second = costs = [Cost(mixture, index) for index in indices]
    weights = first.weights * first.finite
    if indices[0][:-1] != indices[1][:-1]:  # alternatives are infinite independently
        weights = weights * second.finite
    grids = [one.points(limit, 241) for one, limit in zip(costs, limits, strict=True)]
    density = (second.density(grids[1]) * weights) @ first.density(grids[0]).T
    if drawn is not None:
        style: Any = {"color": _DRAWS, "alpha": 0.5, "linewidths": 0, "label": "draws"}
        ax.scatter(drawn[:, 0], drawn[:, 1], s=6, **style)
    levels = _contour_levels(density, grids, float(weights.sum()), masses)
    data = (numbers("grid", values) for values in (*grids, density))
    contours = ax.contour(*data, list(levels), colors=_CURVE)
    names = [one.name for one in costs]
    ax.plot([], [], color=_CURVE, label=f"p({', '.join(names)} | x), mass inside")
    ax.clabel(contours, fmt={level: f"{100 * mass:g}%" for level, mass in levels.items()})
    if r is not None:
        ends = weights.new_tensor(limits)
        below = first.below(ends[:1])[0] * second.below(ends[1:])[0]
        event = ", ".join(f"{n} < {limit:.4g}" for n, limit in zip(names, limits, strict=True))
        _quadrant(ax, limits, grids, f"Pr({event}) = {float(below @ weights):.3f}")
    _note_infinite(ax, " or ".join(names), 1.0 - float(weights.sum()))
    first_label, second_label = labels or [cost_label(model, index) for index in indices]
    ax.set_xlabel(first_label)
    ax.set_ylabel(second_label)
    legend_above(ax)
    return as_it_is(ax)


def _contour_levels(
    density: Tensor, grids: list[Tensor], total: float, masses: tuple[float, ...]
) -> dict[float, float]:
    """Densities at the boundary of the smallest region with each fraction of the total mass."""
    cell = float((grids[0][1] - grids[0][0]) * (grids[1][1] - grids[1][0]))
    descending = density.flatten().sort(descending=True).values
    held = descending.cumsum(0) * cell / total
    levels = {}
    for mass in sorted(set(masses), reverse=True):
        edge = int(torch.searchsorted(held, mass).clamp(max=len(held) - 1))
        levels[float(descending[edge])] = mass
    return levels


def _quadrant(ax: Axes, limits: list[float], grids: list[Tensor], label: str) -> None:
    """Shade the region below both limits without changing the range of the axes."""
    far = (
        min(limit, float(grid[0])) - 9.0 * float(grid[-1] - grid[0])
        for limit, grid in zip(limits, grids, strict=True)
    )
    left, low = far
    style: Any = {"color": _EVENT, "alpha": 0.25, "linewidth": 0, "label": label}
    ax.add_artist(Rectangle((left, low), limits[0] - left, limits[1] - low, **style))


def _histogram(ax: Axes, draws: Array) -> None:
    """Histogram of draws whose area is the fraction of finite draws."""
    finite, label = draws[np.isfinite(draws)], "draws"
    if len(finite) < len(draws):
        label = f"draws, {1.0 - len(finite) / len(draws):.1%} of them infinite"
    edges = np.histogram_bin_edges(finite, int(np.clip(len(finite) ** 0.5, 5, 50)))
    weights = np.full(len(finite), 1.0 / (len(draws) * (edges[1] - edges[0])))
    ax.hist(finite, edges.tolist(), weights=weights, color=_DRAWS, alpha=0.4, label=label)


def _note_infinite(ax: Axes, what: str, probability: float) -> None:
    """Add the probability of an infinite cost to the legend, if it is positive."""
    if probability > 1e-12:
        ax.plot([], [], " ", label=f"Pr({what} infinite) = {probability:.3f}")
