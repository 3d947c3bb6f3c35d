"""Predictions as one revenue, or one column of a table, moves, with a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor, matrix, share, vector
from pyro_gcm.models import GCM, IGCM
from pyro_gcm.plots.axes import (
    AS_IT_IS,
    GREY,
    PALETTE,
    Array,
    as_it_is,
    axes_or_new,
    legend_above,
    legend_name,
    ticks_of_shares,
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
    :raises ValueError: for shapes that do not match.

    >>> from matplotlib.figure import Figure
    >>> from pyro_gcm import GCM
    >>> ax = plot_response_curves(GCM(3, 2), torch.randn(2, 3), revenue=1, ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('r[1] (units of the data)', 'Pr(y = 1 | x, r)')
    """
    x = _rows("x", x, model.x_dim, "x_dim", model)
    names = [f"row {row}" for row in range(len(x))] if labels is None else list(labels)
    if len(x) > len(PALETTE) or len(names) != len(x):
        raise ValueError(
            f"x must have at most {len(PALETTE)} rows, which colours distinguish, got {len(x)}, "
            f"and labels a name for each of them, got {labels!r}"
        )
    tail = 0.5 - 0.5 * share("probability", probability)
    values = _values(model, revenue, grid)
    fixed = (
        model.r_standardizer.loc[None] if r is None else _rows("r", r, model.r_dim, "r_dim", model)
    )
    revenues = fixed.double().repeat(len(values), 1, 1)  # [P, B or 1, m]
    if revenues.shape[1] not in (1, len(x)):
        raise ValueError(f"r must have one row or, like x, {len(x)} rows, got {revenues.shape[1]}")
    revenues[..., revenue] = values[:, None]
    model.response.check_revenue(revenues.flatten(0, 1))
    ax = axes_or_new(ax)

    points = values.cpu().numpy()
    for row, (name, color) in enumerate(zip(names, PALETTE, strict=False)):
        one = x[row : row + 1], revenues[:, row % revenues.shape[1]]
        line = model.surface(*one, num_samples=num_samples)[0]
        ax.plot(points, line.double().cpu().numpy(), color=color, label=legend_name(name))
        if band:
            draws = model.surface_draws(*one, num_samples=num_samples)
            ends = _weighted_quantiles(draws.values[:, 0], draws.weights, (tail, 1.0 - tail))
            ax.fill_between(points, *ends.cpu().numpy(), color=color, alpha=0.18, linewidth=0)
    if band:  # one entry in the legend for all bands
        ax.fill_between([], [], color=GREY, alpha=0.3, label=f"{100 * probability:g}% over z")
    response = model.response
    in_units = f"r[{revenue}] (units of the data)"
    ax.set_xlabel(
        revenue_name or (in_units if response.r_dist() is None else "quantile level (no unit)")
    )
    if response.is_probability:
        ax.set_ylabel(f"Pr({response.event_named(outcome_name)} | x, r)")
    else:
        ax.set_ylabel(f"{response.predicts} of {outcome_name or 'y (units of the data)'}")
    legend_above(ax)
    if response.is_probability:
        ticks_of_shares(ax.yaxis)
    return as_it_is(ax)


def _rows(name: str, value: ArrayLike, columns: int, argument: str, model: GCM | IGCM) -> Tensor:
    """One row or several as a tensor [rows, columns]."""
    rows = as_tensor(name, value, model.device)
    return matrix(name, rows[None] if rows.dim() == 1 else rows, columns, argument)


def _values(model: GCM | IGCM, revenue: int, grid: ArrayLike | None) -> Tensor:
    """The values of the varied revenue, float64 [P]."""
    if grid is not None:
        return vector("grid", grid, model.device).double()
    low, high = 0.02, 0.98
    if model.response.r_dist() is None:
        units = model.r_standardizer
        loc, scale = float(units.loc[revenue]), float(units.scale[revenue])
        low, high = loc - 2.5 * scale, loc + 2.5 * scale
    return torch.linspace(low, high, 101, dtype=torch.float64, device=model.device)


def _weighted_quantiles(
    values: Tensor, weights: Tensor | None, probabilities: tuple[float, ...]
) -> Tensor:
    """The smallest values [N, P] whose cumulative weights reach probabilities, float64 [Q, P].

    There is no interpolation, since the draws may be all possible values, as for a categorical z.

    :param weights: [N, 1, P] or equal ones.
    """
    values, order = values.double().sort(0)
    weights = torch.full_like(values, 1.0 / len(values)) if weights is None else weights[:, 0]
    held = weights.double().gather(0, order).cumsum(0).T.contiguous()  # [P, N]
    # Weights are rounded to the dtype of the model.
    wanted = held.new_tensor([probabilities]).expand(len(held), -1).contiguous() - 1e-6
    first = torch.searchsorted(held, wanted).clamp(max=len(values) - 1)  # [P, Q]
    return values.gather(0, first.T)


#: Height of the histogram of the rows, as a share of the axes.
_HISTOGRAM = 0.18
#: Levels with a name below the axis, and letters of names that have room beside each other.
_TICKS, _LETTERS = 12, 44


def plot_feature_curve(
    curve: pd.DataFrame,
    *,
    rows: Any = None,
    base_rate: float | None = None,
    feature_name: str | None = None,
    outcome_name: str | None = None,
    band_name: str | None = "band",
    percent: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a curve of `GCMClassifier.response_curve`, with its band where it has one.

    :param curve: columns (values of the feature), "prediction", and "lower" and "upper" of a band.
    :param rows: values of the feature in some rows, whose histogram stands below the curve.
    :param base_rate: mean outcome, drawn as a line.
    :param feature_name: name of the feature with its unit; by default that of the first column.
    :param outcome_name: name of what is predicted.
    :param band_name: what the band is, for the legend.
    :param percent: whether predictions are shown in percent.
    :param ax: axes to draw on and to return; by default new ones.

    >>> from matplotlib.figure import Figure
    >>> curve = pd.DataFrame({"dti": [0.0, 40.0], "prediction": [0.1, 0.3]})
    >>> plot_feature_curve(curve, feature_name="debts (%)", ax=Figure().subplots()).get_xlabel()
    'debts (%)'
    """
    values, prediction = curve.iloc[:, 0], curve["prediction"].to_numpy(np.float64)
    levels = None if pd.api.types.is_numeric_dtype(values) else list(values)
    places = (
        values.to_numpy(np.float64) if levels is None else np.arange(len(values), dtype=np.float64)
    )
    ax = axes_or_new(ax)
    drawn = [*prediction]
    style: Any = {"marker": "o", "markersize": 4, "linestyle": "none"} if levels else {}
    ax.plot(places, prediction, color=PALETTE[0], label="mean prediction", **style)
    if "lower" in curve:
        low, high, name = curve["lower"], curve["upper"], legend_name(band_name)
        band: Any = {"color": PALETTE[0], "alpha": 0.2, "label": name}
        if levels:
            ax.vlines(places, low, high, linewidth=6, **band)
        else:
            ax.fill_between(places, low, high, linewidth=0, **band)
        drawn += [*low, *high]
    if base_rate is not None:
        ax.axhline(base_rate, color=GREY, linestyle="--", linewidth=1, label="rate in these rows")
        drawn.append(base_rate)
    if rows is not None:
        _histogram(ax, pd.Series(rows).dropna(), places, levels)
        # Room for it below the curve.
        room = np.ptp(drawn) or abs(drawn[0]) or 1.0
        foot = min(drawn) - _HISTOGRAM / (1.0 - _HISTOGRAM) * room
        ax.update_datalim([(places[0], foot)])
        ax.autoscale_view()
    if levels:
        every = 1 + (len(levels) - 1) // _TICKS
        names, longest = [str(value) for value in levels[::every]], max(map(len, map(str, levels)))
        tilted: Any = {"rotation": 30, "ha": "right"} if longest * len(names) > _LETTERS else {}
        ax.set_xticks(places[::every], names, **AS_IT_IS, **tilted)
    elif (places == places.round()).all():
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))  # no half of a count
    ax.set_xlabel(feature_name or str(curve.columns[0]))
    ax.set_ylabel(outcome_name or "prediction")
    if percent:
        ticks_of_shares(ax.yaxis, percent=True)
    # In the corner that a monotone curve leaves free.
    free: Any = "upper left" if prediction[0] <= prediction[-1] else "upper right"
    ax.legend(frameon=False, fontsize="small", loc=free)
    return as_it_is(ax)


def _histogram(ax: Axes, rows: pd.Series[Any], places: Array, levels: list[Any] | None) -> None:
    """How many rows have which value, at the foot of the axes."""
    if levels is None:
        ends = float(places.min()), float(places.max())
        counts, edges = np.histogram(rows.to_numpy(np.float64), 40, ends)
        middles, widths = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
    else:
        counts = rows.value_counts().reindex(levels, fill_value=0).to_numpy()
        middles, widths = places, np.full(len(places), 0.8)
    heights = _HISTOGRAM * counts / max(1, counts.max())
    foot = ax.get_xaxis_transform()  # x in data, y as a share of the axes
    ax.bar(middles, heights, widths, transform=foot, color=GREY, alpha=0.35, linewidth=0)
