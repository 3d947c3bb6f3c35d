"""Axes of calibration curves that end where the data do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd


def fit_axes(ax: Any, curves: Sequence[pd.DataFrame]) -> None:
    """Cut the axes of calibration curves, as `reliability_curve` returns them, from 0 to 1 down.

    :param ax: axes with `plot_reliability` of each curve.
    """
    ends = []
    for curve in curves:
        ends += [*curve["predicted"], *(curve["observed"] + 2.0 * curve["standard_error"])]
    top = min(1.03, 1.08 * max(ends))
    ax.set_xlim(-0.02 * top, top)
    ax.set_ylim(-0.02 * top, top)
    written = "{x:.0%}" if top > 0.1 else "{x:.1%}"
    ax.xaxis.set_major_formatter(written)
    ax.yaxis.set_major_formatter(written)
    ax.set_ylabel("observed frequency")
    ax.legend(loc="upper left", fontsize="small", frameon=False)
