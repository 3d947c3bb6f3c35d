"""The latent costs of one row: densities, and probabilities to be below the revenues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import ArrayLike, as_tensor, matrix, share
from pyro_gcm.distributions import InfiniteCost
from pyro_gcm.distributions.costs import LatentMixture, finite_part
from pyro_gcm.distributions.families import tail_log_probs
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.plots.axes import (
    PALETTE,
    Array,
    as_it_is,
    axes_or_new,
    legend_above,
    numbers,
)
from pyro_gcm.responses import AxisResponse

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
    mixture = costs_of_row(model, x, num_samples)
    limits: list[Any] = [None, None] if r is None else thresholds(model, r, indices)
    drawn = None if draws is None else draws_of(draws, mixture, indices)

    first, second = costs = [Cost(mixture, index) for index in indices]
    weights = first.weights * first.finite
    if indices[0][:-1] != indices[1][:-1]:  # alternatives are infinite independently
        weights = weights * second.finite
    grids = [one.points(limit, 241) for one, limit in zip(costs, limits, strict=True)]
    density = (second.density(grids[1]) * weights) @ first.density(grids[0]).T
    levels = _contour_levels(density, grids, float(weights.sum()), masses)
    ax = axes_or_new(ax)
    if drawn is not None:
        style: Any = {"color": _DRAWS, "alpha": 0.5, "linewidths": 0, "label": "draws"}
        ax.scatter(drawn[:, 0], drawn[:, 1], s=6, **style)
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
    for mass in sorted({share("masses", mass) for mass in masses}, reverse=True):
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


Index = tuple[int, ...]


class Cost:
    """The distribution of one cost of one row, a mixture over N draws of z.

    :param mixture: p(c | x) with batch shape [1].
    :param index: index of the cost in the event shape, (k,) or (g, k).

    Attributes: `name`; `weights`, of the draws, [N]; `finite`, Pr(c < inf | z), [N].
    """

    def __init__(self, mixture: LatentMixture, index: Index) -> None:
        self.name = f"c[{', '.join(map(str, index))}]"
        self._costs, event = finite_part(mixture.component), mixture.event_shape
        self._place = int(np.ravel_multi_index(index, event))
        self.weights = mixture.log_weights[:, 0].double().exp()
        units = (part.double().expand(event).flatten() for part in (mixture.loc, mixture.scale))
        self._loc, self._scale = (unit[self._place] for unit in units)
        self.finite = torch.ones_like(self.weights)
        if isinstance(mixture.component, InfiniteCost):
            p0 = mixture.component.p0[:, 0].double()  # [N] or [N, G]
            self.finite = 1.0 - (p0 if p0.dim() == 1 else p0[:, index[0]])

    def below(self, points: Tensor) -> Tensor:
        """Pr(c < point | z, c < inf) at points [P], [P, N]."""
        shape = self._costs.batch_shape + self._costs.event_shape  # [N, 1, (G,) K]
        standard = ((points.double() - self._loc) / self._scale).reshape(-1, *[1] * len(shape))
        log_below, _ = tail_log_probs(self._costs, standard)
        return log_below.exp().flatten(2)[..., self._place]

    def density(self, points: Tensor) -> Tensor:
        """p(c | z, c < inf) at many rising points [P], from differences of `below`, [P, N]."""
        return torch.gradient(self.below(points), spacing=(points,), dim=0)[0]

    def points(self, limit: float | None, count: int) -> Tensor:
        """Points that cover almost all of the mass, and a limit that is not far from it, [P]."""
        weights = self.weights * self.finite
        weights = weights / weights.sum()
        low, high = (
            float(smallest_reaching(lambda p: self.below(p) @ weights, tail, loc, scale))
            for loc, scale in [(self._loc[None], self._scale[None])]
            for tail in (5e-4, 1.0 - 5e-4)
        )
        width = high - low
        if limit is not None and low - width <= limit <= high + width:
            low, high = min(low, limit - 0.1 * width), max(high, limit + 0.1 * width)
        return torch.linspace(low, high, count, dtype=torch.float64, device=self.weights.device)


def costs_of_row(model: GCM | IGCM, x: ArrayLike, num_samples: int | None) -> LatentMixture:
    """p(c | x) of one row, [x_dim] or [1, x_dim]."""
    row = as_tensor("x", x, model.device)
    row = row[None] if row.dim() == 1 else row
    if row.dim() != 2 or len(row) != 1:
        shape = tuple(row.shape)
        raise ValueError(f"x must be one row, [{model.x_dim}] or [1, {model.x_dim}], got {shape}")
    return model.cost(row, num_samples=num_samples)


def cost_index(name: str, value: Any, shape: tuple[int, ...]) -> Index:
    """The index (k,) or (g, k) of a cost, from a number k (of alternative 0) or a pair (g, k)."""
    index = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(index) == 1 and len(shape) == 2:
        index = (0, *index)
    if index not in np.ndindex(*shape):
        raise ValueError(f"{name} must be an index in {shape}, got {value!r}")
    return index


def thresholds(model: GCM | IGCM, r: ArrayLike, indices: Sequence[Index]) -> list[float]:
    """The values with which the costs are compared at revenues r, in the units of `model.cost`."""
    if not isinstance(model, GCM) or isinstance(model.response, AxisResponse) or model.members:
        raise ValueError(
            "r must be omitted for this model: an IGCM compares costs with the kernel k, members "
            "have maps of their own, and on an axis y moves the revenues"
        )
    r = matrix("r", as_tensor("r", r, model.device).reshape(1, -1), model.r_dim, "r_dim")
    model.response.check_revenue(r)
    if not model.costs_have_units:
        with evaluating(model):
            r = model.revenue_map(model.r_standardizer(r))
    return [float(r.reshape(model.cost_shape)[index]) for index in indices]


def draws_of(draws: ArrayLike, mixture: LatentMixture, indices: Sequence[Index]) -> Array:
    """Draws of these costs, [S, number of costs]; infinite values are kept."""
    values, event = numbers("draws", draws), tuple(mixture.event_shape)
    alone = () if len(indices) == 1 else (len(indices),)
    if values.shape[1:] not in (alone, (1, *event)) or np.isnan(values).any():
        raise ValueError(
            f"draws must be numbers of shape {['S', *alone]}, or {['S', 1, *event]} for all costs "
            f"of the row, got {values.shape}"
        )
    if values.shape[1:] == alone:
        return values.reshape(len(values), len(indices))
    places = np.ravel_multi_index(np.transpose(indices), event)
    return np.asarray(values.reshape(len(values), -1)[:, places])


def cost_label(model: GCM | IGCM, index: Index) -> str:
    """A label with the name of a cost, the revenue it is compared with, and its unit."""
    name = f"c[{', '.join(map(str, index))}]"
    if (unit := model.units_of_costs).startswith("mapped"):
        return f"{name} (units of the {unit})"
    revenue, of_unit = ("r", "the data") if unit == "data" else (unit, unit)
    return f"{name}, cost of {revenue}[{index[-1]}] (units of {of_unit})"
