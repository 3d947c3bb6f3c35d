"""Axes of calibration curves that end where the data do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd


def fit_axes(ax: Any, curves: Sequence[pd.DataFrame]) -> None:
    """Cut the axes of calibration curves, as `reliability_curve` returns them, at both ends.

    :param ax: axes with `plot_reliability` of each curve.
    """
    table = pd.concat(curves)
    reach = 2.0 * table["standard_error"]
    ends = [table["predicted"], table["observed"] - reach, table["observed"] + reach]
    low, high = max(min(map(min, ends)), 0.0), min(max(map(max, ends)), 1.0)
    room = 0.06 * (high - low) or 0.05
    ax.set_xlim(max(low - room, -0.03), min(high + room, 1.03))
    ax.set_ylim(*ax.get_xlim())
    written = "{x:.0%}" if high - low > 0.1 else "{x:.1%}"
    ax.xaxis.set_major_formatter(written)
    ax.yaxis.set_major_formatter(written)
    ax.set_ylabel("observed frequency")
    ax.legend(loc="upper left", fontsize="small", frameon=False)
