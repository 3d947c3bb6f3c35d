"""Predictions as a function of one revenue, with a band for the uncertainty about z."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import AutoLocator
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor, matrix, positive_int, vector
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.plots._axes import (
    GREY,
    PALETTE,
    as_it_is,
    axes_or_new,
    is_index,
    legend_above,
    legend_name,
)


def plot_response_curves(
    model: GCM | IGCM,
    x: ArrayLike,
    *,
    revenue: int = 0,
    grid: ArrayLike | None = None,
    r: ArrayLike | None = None,
    probability: float = 0.9,
    band: bool = True,
    num_samples: int | None = None,
    labels: Sequence[str] | None = None,
    revenue_name: str | None = None,
    outcome_name: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Predictions for a few rows of x as a function of one revenue, with the others fixed.

    A line is `model.surface`, the average over z: Pr(y = 1 | x, r), the mean or the quantile of y.
    The band is the central interval of the predictions given each draw of z (and of k, for an
    `IGCM` that draws k), so it shows the variation of predictions if z were known. Curves of a
    `GCM` are increasing, those of an `IGCM` need not be.

    :param model: a `GCM` or an `IGCM`.
    :param x: [B, x_dim] in the units of the data, at most seven rows.
    :param revenue: index of the revenue that is varied.
    :param grid: its increasing values [P] in the units of the data; by default its mean in the
        training rows ± 2.5 standard deviations, or 0.02 to 0.98 for quantile levels.
    :param r: all revenues, [r_dim], or [B, r_dim] for different revenues by row, of which the
        others are used; by default their means in the training rows.
    :param probability: probability of the band, in (0, 1).
    :param band: whether to draw the band.
    :param num_samples: number of draws of z, by default that of the model.
    :param labels: names of the rows, [B].
    :param revenue_name: name of the revenue, with its unit.
    :param outcome_name: name of y, with its unit if it has one.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for a revenue index out of range, shapes that do not match, or a grid that
        is not increasing.

    >>> from matplotlib.figure import Figure
    >>> from pyro_gcm import GCM
    >>> ax = plot_response_curves(GCM(3, 2), torch.randn(2, 3), revenue=1, ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('r[1] (units of the data)', 'Pr(y = 1 | x, r)')
    """
    x = as_tensor("x", x, model.device)
    x = matrix("x", x[None] if x.dim() == 1 else x, model.x_dim, "x_dim", model.device)
    rows = len(x)
    if rows > len(PALETTE):
        raise ValueError(
            f"x has {rows} rows, but colours distinguish at most {len(PALETTE)}: pass fewer rows"
        )
    if labels is not None and (isinstance(labels, str) or len(labels) != rows):
        raise ValueError(f"labels must name each of the {rows} rows of x, got {labels!r}")
    if not is_index(revenue, model.r_dim):
        raise ValueError(f"revenue must be an index in 0..{model.r_dim - 1}, got {revenue!r}")
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability must lie in (0, 1), got {probability!r}")
    values = _values(model, revenue, grid)
    revenues = _fixed_revenues(model, r, rows).repeat(len(values), 1, 1)  # [P, B or 1, m]
    revenues[..., revenue] = values[:, None]
    model.response.check_revenue(revenues.flatten(0, 1))
    if num_samples is not None:
        num_samples = positive_int("num_samples", num_samples)
    ax = axes_or_new(ax)

    points = values.cpu().numpy()
    for row in range(rows):
        own = revenues[:, row if revenues.shape[1] > 1 else 0]
        one = x[row : row + 1]
        line = model.surface(one, own, num_samples=num_samples)[0].double()
        name = legend_name(labels[row]) if labels is not None else f"row {row}"
        ax.plot(points, line.cpu().numpy(), color=PALETTE[row], label=name)
        if band:
            draws = model.surface_draws(one, own, num_samples=num_samples)
            weights = None if draws.weights is None else draws.weights[:, 0]
            tail = 0.5 * (1.0 - probability)
            low, high = (
                _weighted_quantile(draws.values[:, 0], weights, p).cpu().numpy()
                for p in (tail, 1.0 - tail)
            )
            ax.fill_between(points, low, high, color=PALETTE[row], alpha=0.18, linewidth=0)
    if band:  # one entry in the legend for all bands
        ax.fill_between([], [], color=GREY, alpha=0.3, label=f"{100 * probability:g}% over z")
    response = model.response
    in_units = f"r[{revenue}] (units of the data)"
    of_response = in_units if response.r_dist() is None else "quantile level (no unit)"
    ax.set_xlabel(revenue_name or of_response)
    if response.is_probability:
        ax.set_ylabel(f"Pr({response.event_named(outcome_name)} | x, r)")
        ax.yaxis.set_major_locator(_Probabilities())
    else:
        ax.set_ylabel(f"{response.predicts} of {outcome_name or 'y (units of the data)'}")
    legend_above(ax)
    return as_it_is(ax)


class _Probabilities(AutoLocator):
    """Ticks in [0, 1] on an axis that extends further for the legend."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        ticks = np.asarray(super().tick_values(vmin, vmax))
        return ticks[(ticks > -1e-9) & (ticks < 1.0 + 1e-9)].tolist()


def _values(model: GCM | IGCM, revenue: int, grid: ArrayLike | None) -> Tensor:
    """The values of the varied revenue, float64 [P]."""
    if grid is not None:
        values = vector("grid", grid, model.device).double()
        if len(values) < 2 or not (values.diff() > 0).all():
            raise ValueError("grid must have at least two values, in increasing order")
        return values
    low, high = 0.02, 0.98
    if model.response.r_dist() is None:
        units = model.r_standardizer
        loc, scale = float(units.loc[revenue]), float(units.scale[revenue])
        low, high = loc - 2.5 * scale, loc + 2.5 * scale
    return torch.linspace(low, high, 101, dtype=torch.float64, device=model.device)


def _fixed_revenues(model: GCM | IGCM, r: ArrayLike | None, rows: int) -> Tensor:
    """The revenues of the rows, float64 [B or 1, m]."""
    if r is None:
        return model.r_standardizer.loc.double()[None]
    r = as_tensor("r", r, model.device)
    r = matrix("r", r[None] if r.dim() == 1 else r, model.r_dim, "r_dim", model.device)
    if len(r) not in (1, rows):
        raise ValueError(f"r must have one row or, like x, {rows} rows, got {len(r)}")
    return r.double()


def _weighted_quantile(values: Tensor, weights: Tensor | None, probability: float) -> Tensor:
    """The smallest value, over dimension 0, whose cumulative weight reaches the probability.

    There is no interpolation, since the draws may be all possible values, as for a categorical z.
    """
    values, order = values.double().sort(0)
    if weights is None:
        cumulative = torch.arange(1, len(values) + 1, device=values.device) / len(values)
        cumulative = cumulative.reshape(-1, *(1,) * (values.dim() - 1)).expand_as(values)
    else:
        cumulative = weights.double().gather(0, order).cumsum(0)
    # Weights are rounded to the dtype of the model.
    first = (cumulative < probability - 1e-6).sum(0, keepdim=True).clamp(max=len(values) - 1)
    return values.gather(0, first)[0]
