"""The mean prediction as one column of a table moves, in the units of the column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pyro_gcm.plots.axes import (
    AS_IT_IS,
    GREY,
    PALETTE,
    Array,
    as_it_is,
    axes_or_new,
    legend_name,
    ticks_of_shares,
)

#: Height of the histogram of the rows, as a share of the axes.
_HISTOGRAM = 0.18


def plot_feature_curve(
    curve: pd.DataFrame,
    *,
    rows: Any = None,
    base_rate: float | None = None,
    feature_name: str | None = None,
    outcome_name: str | None = None,
    band_name: str | None = "range of the members",
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
    marker = "o" if levels else None
    ax.plot(places, prediction, color=PALETTE[0], marker=marker, label="mean prediction")
    if "lower" in curve:
        low, high, name = curve["lower"], curve["upper"], legend_name(band_name)
        ax.fill_between(places, low, high, color=PALETTE[0], alpha=0.2, linewidth=0, label=name)
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
        ax.set_xticks(places, [str(value) for value in levels], **AS_IT_IS)
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
