"""Ratios of `python -m reproduce.benchmarks NAME --store`: a row each for every commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from pyro_gcm._utils.files import write_figure
from reproduce.runs import RESULTS, versions, write_csv

STORED = RESULTS / "benchmarks.csv"
FIGURE = RESULTS.parent / "figures" / "benchmarks.png"
KEY = ["versions", "benchmark"]
QUARTILES = ["lower", "ratio", "upper"]
#: Of the lines of a panel: Okabe and Ito's colours, and markers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "0.4", "0.0")
_MARKERS = "os^DvPX*"


def quartiles(seconds: Mapping[Any, Sequence[float]]) -> dict[Any, list[float]]:
    """Each side but the first -> the quartiles of its ratios to the first, pair by pair.

    :param seconds: the result of `benchmarks.paired`.
    """
    first, *sides = seconds
    ratios = {side: np.divide(seconds[side], seconds[first]) for side in sides}
    return {side: np.quantile(of, [0.25, 0.5, 0.75]).tolist() for side, of in ratios.items()}


def store(
    benchmark: str, measured: Mapping[str, Mapping[Any, Sequence[float]]], path: Path = STORED
) -> pd.DataFrame:
    """Put the ratios of a benchmark in place of those of the same commit and versions.

    :param measured: title of a comparison -> its seconds.

    :returns: the whole table.
    """
    rows = [
        [versions(), benchmark, title, side, next(iter(seconds)), *of]
        for title, seconds in measured.items()
        for side, of in quartiles(seconds).items()
    ]
    table = pd.DataFrame(rows, columns=[*KEY, "comparison", "side", "beside", *QUARTILES])
    if path.exists():
        old = pd.read_csv(path)
        same = (old[KEY] == table[KEY].iloc[0]).all(axis=1)
        table = pd.concat([old[~same], table], ignore_index=True)
    write_csv(table, path)
    return table


def draw(table: pd.DataFrame, path: Path = FIGURE) -> None:
    """A panel a benchmark: its ratios with their quartiles over commits, in the order of the file.

    Keys are sorted by the last ratio, as the lines are.
    """
    code = table["versions"].str.extract(r"pyro_gcm (\S+ ?\S*)[^;]*;")[0].str.replace(" ", "\n")
    commits, names = list(code.unique()), list(table["benchmark"].unique())
    options: Any = {"figsize": (7.5, 2.6 * len(names)), "layout": "constrained", "squeeze": False}
    figure, panels = plt.subplots(len(names), 1, sharex=True, **options)
    for ax, name in zip(panels[:, 0], names, strict=True):
        lines = list(table[table["benchmark"] == name].groupby(["comparison", "side", "beside"]))
        lines.sort(key=lambda line: -line[1]["ratio"].iloc[-1])
        for i, ((comparison, side, beside), rows) in enumerate(lines):
            x = np.array([commits.index(code[row]) for row in rows.index])
            x = x + 0.04 * (i - (len(lines) - 1) / 2)  # beside each other
            low, ratio, high = rows[QUARTILES].to_numpy().T
            looks: Any = {"color": _COLOURS[i % 8], "marker": _MARKERS[i % 8], "markersize": 5}
            label = f"{comparison}:\n{side} / {beside}"
            ax.errorbar(x, ratio, (ratio - low, high - ratio), label=label, linewidth=1, **looks)
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
        ax.set_title(name, loc="left", fontsize=10)
        ax.set_ylabel("ratio of CPU times", fontsize=9)
        ax.set_xticks(range(len(commits)), commits)
        ax.tick_params(labelsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5, frameon=False)
    write_figure(path, figure, dpi=150)
    plt.close(figure)
