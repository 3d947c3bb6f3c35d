"""Drops of predictions found by an audit, and the prediction along the worst pair."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pyro_gcm.audit import MonotonicityAudit
from pyro_gcm.plots._axes import GREY, PALETTE, as_it_is

_KINDS = (("rounding", "within rounding", GREY), ("violations", "violation", PALETTE[1]))


def plot_audit(audit: MonotonicityAudit, *, outcome_name: str = "prediction") -> Figure:
    """Histograms of drops, one panel per search, and the prediction along the worst pair.

    Bins are quarters of a decade; a bin can have both colours, since the tolerance is relative for
    predictions above 1. The last panel shows the prediction along the straight line from the lower
    to the higher end of the worst violation, on which a monotone prediction would not decrease.

    :param audit: the result of `audit_monotonicity`.
    :param outcome_name: name of the prediction, with its unit.
    :returns: a new figure.
    :raises ValueError: if `audit` is not a `MonotonicityAudit`.

    >>> from pyro_gcm.audit import audit_monotonicity
    >>> x, r = np.zeros((50, 1)), np.linspace(0.0, 1.0, 50)[:, None]
    >>> audit = audit_monotonicity(lambda x, r: np.sin(4.0 * r[:, 0]), x, r, pairs=3000)
    >>> figure = plot_audit(audit)
    >>> figure.axes[-1].get_xlabel()
    'r[0]'
    >>> plt.close(figure)
    """
    if not isinstance(audit, MonotonicityAudit):
        raise ValueError(f"audit must be a MonotonicityAudit, got {type(audit).__name__}")
    searches = audit.frame.to_dict("records")
    height = 1.3 * len(searches) + 0.9
    figure = plt.figure(figsize=(9.0, max(3.8, height)), layout="constrained")
    grid = figure.add_gridspec(len(searches), 2, width_ratios=(1.0, 1.1))
    for place, search in enumerate(searches):
        ax = figure.add_subplot(grid[place, 0])
        _histogram(ax, audit, str(search["search"]))
        drops = search["rounding"] + search["violations"]
        title = f"{search['search']}: {drops:,} drops in {search['pairs']:,} pairs"
        ax.set_title(title, fontsize="medium", loc="left")
        ax.tick_params(labelbottom=place == len(searches) - 1)
        if place == len(searches) // 2:
            ax.set_ylabel("pairs")
    ax.set_xlabel("drop of the prediction")
    _witness(figure.add_subplot(grid[:, 1]), audit, outcome_name)
    marks = [Patch(color=color, label=label) for _, label, color in _KINDS]
    tolerance = Line2D([], [], color="black", linewidth=0.8, linestyle=":", label="tolerance")
    figure.legend(handles=[*marks, tolerance], loc="outside upper left", ncols=3, frameon=False)
    return figure


def _histogram(ax: Axes, audit: MonotonicityAudit, search: str) -> None:
    drops = audit.drops[audit.drops["search"] == search]
    left = 10.0 ** (drops["exponent"].to_numpy(np.float64) / 4.0)
    bottom = np.zeros(len(drops))
    for kind, _, color in _KINDS:
        count = drops[kind].to_numpy(np.float64)
        width = left * (10.0**0.25 - 1.0)
        ax.bar(left, count, width, bottom, align="edge", color=color)
        bottom += count
    if audit.tolerance > 0:
        ax.axvline(audit.tolerance, color="black", linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_yscale("log")
    # All searches share limits, which exist also without any drop.
    near = audit.tolerance or 1e-16
    sizes = [*10.0 ** (audit.drops["exponent"] / 4.0), 1e-3 * near, 1e3 * near]
    most = audit.drops[["rounding", "violations"]].sum(axis=1).max() if len(audit.drops) else 10
    ax.set_xlim(0.3 * min(sizes), 6.0 * max(sizes))
    ax.set_ylim(0.7, 2.0 * most)


def _witness(ax: Axes, audit: MonotonicityAudit, outcome_name: str) -> None:
    w = audit.witness
    if w is None:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no violation found", ha="center", va="center", transform=ax.transAxes)
        return
    moved = np.flatnonzero(w.r_low != w.r_high)
    if len(moved) == 1:
        (column,) = moved
        along = np.linspace(w.r_low[column], w.r_high[column], len(w.segment))
        label = audit.r_names[column]
    else:
        along = np.linspace(0.0, 1.0, len(w.segment))
        names = [audit.r_names[j] for j in moved[:4]] + ["..."] * (len(moved) > 4)
        label = "from r_low (0) to r_high (1), moving " + ", ".join(names)
    ax.plot(along, w.segment, color=PALETTE[0])
    ax.plot(along[[0, -1]], [w.low, w.high], "o", color=PALETTE[1], label=f"drop of {w.drop:.3g}")
    if along[-1] < along[0]:
        ax.invert_xaxis()  # so that the prediction should increase to the right
    ax.set_xlabel(label)
    ax.set_ylabel(outcome_name)
    confirmed = "confirmed" if w.confirmed else "not confirmed"
    ax.set_title(f"worst pair: row {w.row}, {confirmed}", fontsize="medium", loc="left")
    ax.legend(fontsize="small")
    as_it_is(ax)
