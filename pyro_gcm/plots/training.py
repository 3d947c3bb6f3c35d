"""What a training did and learned: losses, bounds, and the posterior of the latent variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from pyro_gcm._utils.validation import ArrayLike
from pyro_gcm.plots.axes import (
    GREY,
    PALETTE,
    Array,
    as_it_is,
    axes_or_new,
    legend_above,
    legend_name,
    next_color,
    numbers,
)
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


#: Maximum number of draws of all rows together; more would be slow and unreadable.
_MAX_DRAWS = 20_000
#: Perceptually uniform and colour-blind safe.
_COLORMAP = "cividis"


def plot_latent(
    z: ArrayLike,
    y: ArrayLike,
    *,
    dims: tuple[int, int] = (0, 1),
    num_draws: int = 20,
    latent_name: str = "z",
    outcome_name: str = "y",
    ax: Axes | None = None,
) -> Axes:
    """Posterior means of two dimensions of z, one point per row, coloured by the outcome.

    Draws of z are shown faintly behind the means; a wide spread of draws means that z is uncertain.
    An outcome of zeros and ones has two colours and a legend, another outcome a colour bar.

    :param z: draws [S, B, D], such as those of `cost_posterior`, or means [B, D].
    :param y: outcomes, [B].
    :param dims: the two dimensions of z.
    :param num_draws: maximum number of draws that are shown for each row.
    :param latent_name: name of z, which has no unit.
    :param outcome_name: name of y, with its unit.
    :param ax: axes to draw on and to return; by default new ones.

    >>> from matplotlib.figure import Figure
    >>> import torch
    >>> z, y = torch.zeros(100, 3, 4), torch.tensor([0, 1, 1])
    >>> plot_latent(z, y, dims=(0, 2), ax=Figure().subplots()).get_ylabel()
    'posterior mean of z[2] (no unit)'
    """
    draws, outcome = numbers("z", z), numbers("y", y)
    draws = draws[..., list(dims)]
    means, shown = draws, 0
    if draws.ndim == 3:
        means, shown = draws.mean(0), min(num_draws, _MAX_DRAWS // len(outcome), len(draws))
    chosen = draws[np.linspace(0, len(draws) - 1, shown).astype(int)]  # [shown, B, 2]
    ax = axes_or_new(ax)
    if np.isin(outcome, (0.0, 1.0)).all():
        for value, marker in ((0, "o"), (1, "^")):
            rows, label = outcome == value, legend_name(f"{outcome_name} = {value}")
            if rows.any():
                _draws(ax, chosen[:, rows] if shown else chosen, color=PALETTE[value])
                _means(ax, means[rows], color=PALETTE[value], marker=marker, label=label)
        legend_above(ax)
    else:
        scale = {"cmap": _COLORMAP, "vmin": outcome.min(), "vmax": outcome.max()}
        _draws(ax, chosen, c=np.tile(outcome, shown), **scale)
        points = _means(ax, means, c=outcome, **scale)
        as_it_is(ax.figure.colorbar(points, ax=ax, label=outcome_name).ax)
    ax.set_xlabel(f"posterior mean of {latent_name}[{dims[0]}] (no unit)")
    ax.set_ylabel(f"posterior mean of {latent_name}[{dims[1]}] (no unit)")
    return as_it_is(ax)


def _means(ax: Axes, means: Array, **style: Any) -> Any:
    """One point per row, in front of the draws."""
    front: Any = {"s": 22, "edgecolors": "white", "linewidths": 0.4, "zorder": 3}
    return ax.scatter(means[:, 0], means[:, 1], **front, **style)


def _draws(ax: Axes, draws: Array, **style: Any) -> None:
    """Small and faint points, rasterised to keep vector graphics small."""
    if draws.size:
        faint: Any = {"s": 4, "alpha": 0.15, "linewidths": 0, "rasterized": True}
        ax.scatter(draws[..., 0].ravel(), draws[..., 1].ravel(), **faint, **style)
