"""Figures: the quantile curves (the paper's Figure 6) and the held-out comparison."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from pyro_gcm.files.writing import write_figure
from reproduce.data import simulation
from reproduce.intervals import Interval
from reproduce.released.tables import NINE, by_change
from reproduce.rendering.tables import places
from reproduce.tasks import TASKS

OURS = {"GCM": "tab:red", "IGCM": "tab:purple"}


def draw_curves(curves: pd.DataFrame, path: Path) -> None:
    """One column a method, one row a training stage, five curves over the simulated points.

    :param curves: columns method, step, r, and y at every x that a column is named for.
    """
    methods, steps = curves["method"].unique(), sorted(curves["step"].unique())
    figure, axes = plt.subplots(
        len(steps),
        len(methods),
        figsize=(3.6 * len(methods), 1.9 * len(steps)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    x, _, points = simulation.sample(600, seed=0)
    at = curves.columns.difference(["method", "step", "r"], sort=False)
    grid = torch.linspace(*simulation.X_RANGE, 121)
    for row, step in zip(axes, steps, strict=True):
        for ax, method in zip(row, methods, strict=True):
            ax.scatter(x[:, 0], points, s=4, color="0.65", linewidths=0, label="data")
            for level in simulation.LEVELS:
                truth = simulation.quantile(grid, level)
                ax.plot(grid, truth, color="0.3", linewidth=0.8, linestyle=":", label="true")
            shown = curves[(curves["method"] == method) & (curves["step"] == step)]
            for y in shown[at].to_numpy():
                ax.plot(at.astype(float), y, color="tab:red", linewidth=1.1, label="predicted")
            ax.set_ylim(-2.0, 2.0)
        row[0].set_ylabel(f"step {step}\ny")
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(method)
    for ax in axes[-1]:
        ax.set_xlabel("x")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside upper center", ncols=3)
    _save(figure, path)


def curve_groups(methods: list[str]) -> dict[str, list[str]]:
    """Name of a figure -> the methods in it: four at most, and GCM beside them."""
    others = [method for method in methods if method != "GCM"]
    gcm = [method for method in methods if method == "GCM"]
    groups = [[*others[at : at + 4], *gcm] for at in range(0, len(others), 4)]
    return {f"quantile_curves_{n}.png": group for n, group in enumerate(groups, start=1)}


def draw_held_out(table: pd.DataFrame, path: Path) -> None:
    """How far each method is behind the first, one panel a data set, the first on top."""
    names = [name for name in TASKS if name in set(table["dataset"])]
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4.3 * columns, 3.6 * lines), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes.flat, names, strict=False):
        ranked = places(table, name)
        behind = [place.behind or Interval(0.0, 0.0, 0) for place in ranked]
        for y, (place, each) in enumerate(zip(ranked, behind, strict=True)):
            colour = OURS.get(place.method.split(" ")[0], "0.25")
            half = np.nan_to_num(each.half)
            ax.errorbar(each.mean, y, xerr=half, fmt="o", color=colour, markersize=4, capsize=2)
        ax.axvline(0.0, color="0.6", linewidth=0.8)
        ax.set_yticks(range(len(ranked)), [place.method for place in ranked], fontsize=8)
        ax.set_ylim(len(ranked) - 0.5, -0.5)
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=5)
        ax.set_title(f"{TASKS[name].title}: {TASKS[name].metric}", fontsize=10)
    figure.supxlabel("behind the first (paired mean, corrected 95 % interval)", fontsize=10)
    _save(figure, path)


def draw_changes(table: pd.DataFrame, path: Path) -> None:
    """Every method against the mean of all of them, a line for each change of the protocol.

    Lines that lack a method are left out, and so are data sets without a line.
    """
    every = {
        name: {
            change: cells
            for change, cells in by_change(table, name).items()
            if {(method, name) for method in NINE} <= set(cells)
        }
        for name in TASKS
        if name in set(table["dataset"])
    }
    names = [name for name, lines in every.items() if lines]
    if not names:
        return
    figure, axes = plt.subplots(
        1, len(names), figsize=(4.3 * len(names), 4.2), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes.flat, names, strict=True):
        lines = every[name]
        sign = -1.0 if TASKS[name].lower_is_better else 1.0
        for y, cells in enumerate(lines.values()):
            means = {method: cells[method, name].mean for method in NINE}
            middle = sum(means.values()) / len(means)
            for method, mean in means.items():
                own = OURS.get(method)
                marks = {"Hint": "x"} if own is None else {}
                ax.plot(
                    sign * (mean - middle),
                    y,
                    marker=marks.get(method, "o"),
                    color=own or "0.55",
                    markersize=7 if own else 4.5,
                    linestyle="none",
                    zorder=3 if own else 2,
                    label=method if own or method == "Hint" else "other methods",
                )
        ax.axvline(0.0, color="0.7", linewidth=0.8, zorder=1)
        ax.set_yticks(range(len(lines)), list(lines), fontsize=8)
        ax.set_ylim(len(lines) - 0.5, -0.5)
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=5)
        ax.set_title(f"{TASKS[name].title}: {TASKS[name].metric}", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(
        unique.values(), unique.keys(), loc="outside upper center", ncols=2 * min(2, len(names))
    )
    figure.supxlabel("better than the mean of the nine methods", fontsize=10)
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    write_figure(path, figure, dpi=110)
    plt.close(figure)
