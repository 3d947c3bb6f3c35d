"""Figures of the report; the quantile curves are drawn by `quantile_figure`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from reproduce import ablation, quoted
from reproduce.intervals import Interval, Place
from reproduce.quantile_figure import draw_curves
from reproduce.tables import intervals, paper_cells, places
from reproduce.tasks import TASKS

OURS = {"GCM": "tab:red", "IGCM": "tab:purple"}
STYLES = {"one by one": "-", "at once": "--", "cached": ":"}


def draw(results: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """The figures of the tables that are there."""
    if "quantile_curves" in results:
        curves = results["quantile_curves"]
        for name, methods in curve_groups(curves).items():
            draw_curves(curves[curves["method"].isin(methods)], folder / name)
    if "public_held-out" in results:
        table = results["public_held-out"]
        there = [name for name in TASKS if name in set(table["dataset"])]
        draw_held_out({name: places(table, name) for name in there}, folder / "held_out.png")
    if "ablation" in results:
        draw_ablation(ablation.with_sizes(results["ablation"]), folder / "ablation.png")
    if "timing" in results:
        table = results["timing"]
        devices = sorted(set(table["device"]))
        times = {device: quoted.times(table, device) for device in devices}
        draw_timing(times, folder / "timing.png")


def curve_groups(curves: pd.DataFrame) -> dict[str, list[str]]:
    """Name of a figure -> the methods in it: four at most, and GCM beside them."""
    methods = list(dict.fromkeys(curves["method"]))
    others = [method for method in methods if method != "GCM"]
    gcm = [method for method in methods if method == "GCM"]
    groups = [[*others[at : at + 4], *gcm] for at in range(0, max(len(others), 1), 4)]
    return {f"quantile_curves_{n}.png": group for n, group in enumerate(groups, start=1)}


def draw_held_out(rankings: Mapping[str, Sequence[Place]], path: Path) -> None:
    """How far each method is behind the first, one panel a data set, the first on top."""
    columns = min(3, len(rankings))
    lines = -(-len(rankings) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4.3 * columns, 3.6 * lines), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(rankings) :]:
        ax.set_visible(False)
    for ax, (name, ranked) in zip(axes.flat, rankings.items(), strict=False):
        behind = [place.behind or Interval(0.0, 0.0, 0) for place in ranked]
        reach = np.array([each.mean + np.nan_to_num(each.half) for each in behind])
        # One method that failed must not squeeze the others into a line.
        limit = reach[reach <= 4 * np.nanmedian(reach)].max(initial=0.0) * 1.08 or 1.0
        for y, (place, each) in enumerate(zip(ranked, behind, strict=True)):
            colour = OURS.get(place.method.split(" ")[0], "0.25")
            if each.mean > limit:
                note = f"{each.mean:.3g} →"
                ax.text(limit, y, note, ha="right", va="center", fontsize=8, color=colour)
                continue
            half = np.nan_to_num(each.half)
            ax.errorbar(each.mean, y, xerr=half, fmt="o", color=colour, markersize=4, capsize=2)
        ax.axvline(0.0, color="0.6", linewidth=0.8)
        low = min(0.0, np.nanmin([each.mean - np.nan_to_num(each.half) for each in behind]))
        ax.set_xlim(max(low, -limit) - 0.04 * limit, limit)
        ax.set_yticks(range(len(ranked)), [place.method for place in ranked], fontsize=8)
        ax.set_ylim(len(ranked) - 0.5, -0.5)
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=5)
        ax.set_title(f"{TASKS[name].title}: {TASKS[name].metric}", fontsize=10)
    figure.supxlabel("behind the first (paired mean, corrected 95 % interval)", fontsize=10)
    _save(figure, path)


def draw_ablation(table: pd.DataFrame, path: Path) -> None:
    """AUC of every cell with its interval; the paper's where the label is the published one.

    :param table: see `ablation.with_sizes`.
    """
    variants, methods = sorted(set(table["variant"]), reverse=True), sorted(set(table["method"]))
    figure, axes = plt.subplots(
        len(methods),
        len(variants),
        figsize=(6.4 * len(variants), 3.2 * len(methods)),
        squeeze=False,
        layout="constrained",
    )
    paper = paper_cells("ablation_adult", "method", "latent_dim", "sample_number", "auc", "ci95")
    for row, method in zip(axes, methods, strict=True):
        for ax, variant in zip(row, variants, strict=True):
            rows = table[(table["variant"] == variant) & (table["method"] == method)]
            sides = {"ours": intervals(rows, "D", "N")}
            if variant == "published":
                sides["paper"] = {(d, n): cell for (m, d, n), cell in paper.items() if m == method}
            keys = sorted({key for cells in sides.values() for key in cells})
            for shift, (side, cells) in zip((-0.12, 0.12), sides.items(), strict=False):
                at = [keys.index(key) + shift for key in cells]
                means = [cell.mean for cell in cells.values()]
                halves = np.nan_to_num([cell.half for cell in cells.values()])
                colour = OURS[method] if side == "ours" else "0.55"
                ax.errorbar(at, means, yerr=halves, fmt="o", color=colour, markersize=4, label=side)
            starts = [n for n, (d, _) in enumerate(keys) if n == 0 or keys[n - 1][0] != d]
            ticks = [f"{n}\nD = {d}" if i in starts else f"{n}" for i, (d, n) in enumerate(keys)]
            ax.set_xticks(range(len(keys)), ticks, fontsize=8)
            for start in starts[1:]:
                ax.axvline(start - 0.5, color="0.85", linewidth=0.8)
            ax.margins(y=0.2)
            ax.set_title(f"{method}, {variant} label", fontsize=10)
            ax.set_ylabel("AUC")
            ax.legend(fontsize=8, loc="upper right")
    for ax in axes[-1]:
        ax.set_xlabel("N")
    _save(figure, path)


def draw_timing(times: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Milliseconds against the number of revenues, one panel a method, GCM in each.

    :param times: device -> table of `timing.by_revenues`.
    """
    paper = quoted.paper_times().droplevel("x")
    others = [method for method in paper.index if method != "GCM"]
    figure, axes = plt.subplots(
        len(times),
        len(others),
        figsize=(4.2 * len(others), 3.8 * len(times)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    handles: dict[str, Any] = {}
    for row, (device, wide) in zip(axes, times.items(), strict=True):
        for ax, method in zip(row, others, strict=True):
            for side, times_taken in zip(wide.index, wide.to_numpy(), strict=True):
                name, treatment = side
                if name not in (method, "GCM"):
                    continue
                colour = "tab:red" if name == "GCM" else "tab:blue"
                label = f"{'GCM' if name == 'GCM' else 'other'}, {treatment}"
                (handles[label],) = ax.plot(
                    wide.columns, times_taken, STYLES[treatment], color=colour, marker="."
                )
            for name, colour in ((method, "0.45"), ("GCM", "0.75")):
                label = f"paper: {'GCM' if name == 'GCM' else 'other'}"
                (handles[label],) = ax.plot(
                    paper.columns, paper.loc[name], color=colour, linewidth=1.0
                )
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_title(f"{method} and GCM, {device}", fontsize=10)
            ax.grid(alpha=0.3)
        row[0].set_ylabel("ms a batch of 64 rows")
    for ax in axes[-1]:
        ax.set_xlabel("number of revenues R")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
