"""The mean prediction as one column of a table moves, in the units of the column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from pyro_gcm._utils.validation import shown
from pyro_gcm.plots._axes import (
    AS_IT_IS,
    GREY,
    PALETTE,
    as_it_is,
    axes_or_new,
    columns,
    legend_name,
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
    :raises ValueError: for a curve without these columns.

    >>> from matplotlib.figure import Figure
    >>> curve = pd.DataFrame({"dti": [0.0, 40.0], "prediction": [0.1, 0.3]})
    >>> plot_feature_curve(curve, feature_name="debts (%)", ax=Figure().subplots()).get_xlabel()
    'debts (%)'
    """
    (prediction,) = columns("curve", curve, ("prediction",))
    feature = str(curve.columns[0])
    if feature == "prediction":
        raise ValueError("curve must have the values of a feature in its first column")
    ax = axes_or_new(ax)
    values = curve.iloc[:, 0]
    levels = not pd.api.types.is_numeric_dtype(values)
    at = np.arange(len(curve)) if levels else values.to_numpy(np.float64)
    ax.plot(at, prediction, color=PALETTE[0], marker="o" if levels else None, label="all rows")
    low, high = prediction, prediction
    if "lower" in curve:
        low, high = columns("curve", curve, ("lower", "upper"))
        name = legend_name(band_name)
        ax.fill_between(at, low, high, color=PALETTE[0], alpha=0.2, linewidth=0, label=name)
    if base_rate is not None:
        ax.axhline(base_rate, color=GREY, linestyle="--", linewidth=1, label="rate in these rows")
        low, high = np.append(low, base_rate), np.append(high, base_rate)
    bottom, top = float(low.min()), float(high.max())
    room = (top - bottom) or max(abs(top), 1.0)
    if rows is not None:
        bottom -= _HISTOGRAM / (1.0 - _HISTOGRAM) * room
        _histogram(ax, rows, at, list(values) if levels else None)
    bottom, top = bottom - 0.04 * room, top + 0.04 * room
    siblings = [other for other in ax.get_shared_y_axes().get_siblings(ax) if other is not ax]
    if any(other.lines for other in siblings):
        bottom, top = min(bottom, ax.get_ylim()[0]), max(top, ax.get_ylim()[1])
    ax.set_ylim(bottom, top)
    if levels:
        ax.set_xticks(at, [str(value) for value in values], **AS_IT_IS)
    ax.set_xlabel(feature_name or feature)
    ax.set_ylabel(outcome_name or "prediction")
    if percent:
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.legend(frameon=False, fontsize="small", loc="best")
    return as_it_is(ax)


def _histogram(ax: Axes, rows: Any, at: np.ndarray[Any, Any], levels: list[Any] | None) -> None:
    """How many rows have which value, at the foot of the axes."""
    given = _given(rows, levels is None)
    if levels is not None:
        counts = given.value_counts().reindex(levels, fill_value=0).to_numpy()
        edges = np.append(at - 0.4, at[-1] + 0.4)
    else:
        counts, edges = np.histogram(given.to_numpy(np.float64), 40, (at.min(), at.max()))
    heights = _HISTOGRAM * counts / max(1, counts.max())
    foot = ax.get_xaxis_transform()  # x in data, y as a share of the axes
    width = 0.8 if levels is not None else np.diff(edges)
    places = at if levels is not None else (edges[:-1] + edges[1:]) / 2
    ax.bar(places, heights, width, transform=foot, color=GREY, alpha=0.35, linewidth=0)


def _given(rows: Any, are_numbers: bool) -> pd.Series[Any]:
    """Return the values of a table's column that are not missing."""
    try:
        given = pd.Series(rows).dropna()
        return given.astype(np.float64) if are_numbers else given
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"rows must be values of the feature, got {shown(rows)}: {error}"
        ) from error
