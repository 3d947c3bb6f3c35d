"""Losses during training, and bounds for different numbers of particles."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from pyro_gcm.plots.axes import GREY, PALETTE, as_it_is, axes_or_new, legend_name, next_color
from pyro_gcm.training import FitResult


def plot_history(
    result: FitResult | pd.DataFrame,
    *,
    loss_name: str = "minus the bound (nats per row)",
    ax: Axes | None = None,
) -> Axes:
    """Loss by epoch on the training rows and, if there is one, on the validation part.

    :param result: the result of `fit`, or its `history`, a DataFrame with the columns epoch, loss
        and optionally validation_loss. For a result with a validation part, the epoch whose weights
        were kept is marked.
    :param loss_name: label of the loss.
    :param ax: axes to draw on and to return; by default new ones.

    >>> from matplotlib.figure import Figure
    >>> history = pd.DataFrame({"epoch": [1, 2, 3], "loss": [0.7, 0.6, 0.55]})
    >>> plot_history(history, ax=Figure().subplots()).get_ylabel()
    'minus the bound (nats per row)'
    """
    frame = result.history if isinstance(result, FitResult) else result
    ax = axes_or_new(ax)
    # A line would not show a single epoch.
    marker = "o" if len(frame) == 1 else None
    losses = {"loss": "training rows", "validation_loss": "validation rows"}
    for color, (name, label) in zip(PALETTE, losses.items(), strict=False):
        if name == "loss" or name in frame:
            ax.plot(frame["epoch"], frame[name], color=color, marker=marker, label=label)
    if isinstance(result, FitResult) and "validation_loss" in frame:
        best = result.best_epoch
        ax.axvline(best, color=GREY, linestyle=":", label=f"best epoch, {best}")
    ax.set_xlabel("epoch")
    ax.set_ylabel(loss_name)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend()
    return as_it_is(ax)


def plot_bound(frame: pd.DataFrame, *, label: str | None = None, ax: Axes | None = None) -> Axes:
    """A bound on the log evidence against the number of particles, with two standard errors.

    The importance-weighted bound increases with the number of particles (Burda et al. 2016); once
    it is flat, more particles do not help. Several calls on the same axes compare guides.

    :param frame: one row per number of particles with the columns num_particles, bound (nats per
        row) and standard_error; a NaN standard error draws no bar.
    :param label: name of the curve in the legend.
    :param ax: axes to draw on and to return; by default new ones.

    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame(
    ...     {"num_particles": [1, 8, 64], "bound": [-0.6, -0.5, -0.49], "standard_error": 0.01}
    ... )
    >>> plot_bound(frame, label="posterior guide", ax=Figure().subplots()).get_xlabel()
    'number of particles'
    """
    frame = frame.sort_values("num_particles")
    ax = axes_or_new(ax)
    ax.errorbar(
        frame["num_particles"],
        frame["bound"],
        2.0 * frame["standard_error"],
        color=next_color(ax),
        marker="o",
        markersize=4,
        capsize=3,
        label=legend_name(label),
    )
    ax.set_xscale("log", base=2)
    # Ticks of all curves on these axes.
    ticks = np.concatenate([np.asarray(line.get_xdata(), np.float64) for line in ax.lines])
    ax.xaxis.set_major_locator(FixedLocator(np.unique(ticks).tolist(), nbins=12))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel("number of particles")
    ax.set_ylabel("bound (nats per row, ± 2 standard errors)")
    if label is not None:
        ax.legend(loc="lower right")
    return as_it_is(ax)
