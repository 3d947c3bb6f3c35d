"""The figure of the credit tables: what the directions cost, and whether they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

from pyro_gcm._utils.files import write_figure
from reproduce.data.credit_tables import TITLES
from reproduce.methods.credit import METHODS
from reproduce.rendering.credit_prices import MODES, prices

#: Okabe and Ito's colours, one a table, and markers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_LOOKS = dict(zip(TITLES, zip(_COLOURS, "os^D", strict=True), strict=True))


def largest_falls(table: pd.DataFrame) -> pd.Series:
    """The largest fall of each method with directions, in points of 100, over all searches."""
    rows = table[(table["variant"] == MODES[0]) & (table["metric"] == "largest drop")]
    return 100 * rows.groupby("method")["value"].max()


def draw_credit(scores: pd.DataFrame, falls: pd.DataFrame, path: Path) -> None:
    """A line a method: its prices on the tables at the left, its largest fall at the right.

    It is as wide as a telephone, so that it can be read there.
    """
    of_table = {name: prices(scores, name) for name in TITLES if name in set(scores["dataset"])}
    fell = largest_falls(falls)
    methods = [m for m in METHODS if m in set(scores["method"]) | set(fell.index)]
    options: Any = {"figsize": (4.2, 0.31 * len(methods) + 1.5), "layout": "constrained"}
    figure, (left, right) = plt.subplots(1, 2, sharey=True, width_ratios=(4, 3), **options)
    for name, found in of_table.items():
        colour, marker = _LOOKS[name]
        keys = [(y, (method, "AUC")) for y, method in enumerate(methods)]
        known = [(100 * found[key].mean, y) for y, key in keys if key in found]
        looks: Any = {"s": 26, "color": colour, "marker": marker, "alpha": 0.85, "zorder": 3}
        left.scatter(*zip(*known, strict=True), label=TITLES[name], **looks)
    left.axvline(0.0, color="0.5", linewidth=0.9, zorder=1)
    left.set_xlabel("points of AUC\nlost", fontsize=9)
    for y, method in enumerate(methods):
        if not any((method, "AUC") in found for found in of_table.values()):
            left.text(0.06, y, "no price", va="center", fontsize=8, color="0.4")
        if method in fell:
            if fell[method]:
                right.plot(fell[method], y, "o", color="#D55E00")
            told = f"   {fell[method]:.1f}" if fell[method] else "  0"
            right.text(fell[method] or 0.1, y, told, va="center", fontsize=9)
    right.set_xscale("log")
    right.set_xlim(0.1, 2e4)
    right.set_xticks([1.0, 100.0], ["1", "100"])
    right.minorticks_off()
    right.set_xlabel("largest fall,\npoints of risk", fontsize=9)
    right.tick_params(axis="x", labelsize=9)
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
