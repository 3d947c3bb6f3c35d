"""The figure of the credit tables: what the directions cost, and whether they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

from pyro_gcm._utils.writing import write_figure
from reproduce.data.credit_tables import TITLES
from reproduce.methods.credit import METHODS
from reproduce.rendering.credit_prices import prices
from reproduce.rendering.credit_scores import MODES

#: Okabe and Ito's colours, one a table, and markers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_LOOKS = dict(zip(TITLES, zip(_COLOURS, "os^D", strict=True), strict=True))
_MILLION = 1_000_000


def falls_a_million(table: pd.DataFrame) -> pd.Series:
    """Falls of each method with directions in a million pairs, over all searches and tables."""
    rows = table[(table["variant"] == MODES[0]) & table["metric"].isin(["falls", "pairs"])]
    counts = rows.pivot_table("value", "method", "metric", aggfunc="sum")
    return _MILLION * counts["falls"] / counts["pairs"]


def draw_credit(scores: pd.DataFrame, falls: pd.DataFrame, path: Path) -> None:
    """A line a method: its prices on the tables at the left, its falls at the right.

    It is as wide as a telephone, so that it can be read there.
    """
    of_table = {name: prices(scores, name) for name in TITLES if name in set(scores["dataset"])}
    fell = falls_a_million(falls)
    methods = [m for m in METHODS if m in set(scores["method"]) | set(fell.index)]
    options: Any = {"figsize": (4.2, 0.31 * len(methods) + 1.5), "layout": "constrained"}
    figure, (left, right) = plt.subplots(1, 2, sharey=True, width_ratios=(3, 2), **options)
    for name, found in of_table.items():
        colour, marker = _LOOKS[name]
        known = [(100 * found[m].of["AUC"].mean, y) for y, m in enumerate(methods) if m in found]
        looks: Any = {"s": 26, "color": colour, "marker": marker, "alpha": 0.85, "zorder": 3}
        left.scatter(*zip(*known, strict=True), label=TITLES[name], **looks)
    left.axvline(0.0, color="0.5", linewidth=0.9, zorder=1)
    left.set_xlabel("points of AUC\nlost", fontsize=9)
    for y, method in enumerate(methods):
        rate = float(fell.get(method, float("nan")))
        if rate > 0:
            right.barh(y, rate, left=1.0, height=0.6, color="#D55E00")
        told = f"{rate:,.0f}" if rate >= 0 else "–"
        right.text(1.25 * (rate if rate > 1 else 1.0), y, told, va="center", fontsize=9)
    right.set_xscale("log")
    right.set_xlim(1.0, max(1e3 * fell.max(), 1e3))
    right.set_xlabel("falls in a\nmillion pairs", fontsize=9)
    right.set_xticks([])
    right.minorticks_off()
    left.set_yticks(range(len(methods)), methods, fontsize=9)
    left.set_ylim(len(methods) - 0.5, -0.5)
    left.tick_params(axis="x", labelsize=9)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.92", zorder=0)
        ax.set_axisbelow(True)
        ax.tick_params(axis="y", length=0)
    legend: Any = {"loc": "outside upper center", "ncols": 2, "fontsize": 9, "frameon": False}
    figure.legend(*left.get_legend_handles_labels(), handletextpad=0.2, **legend)
    write_figure(path, figure, dpi=200)
    plt.close(figure)
