"""Calibration of probabilities and of posteriors: reliability curves and rank histograms."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import binom

from pyro_gcm._utils.validation import ArrayLike, positive_int
from pyro_gcm.plots.axes import (
    GREY,
    as_it_is,
    axes_or_new,
    legend_above,
    legend_name,
    next_color,
    numbers,
)

#: Probability of the band of a rank histogram, for each bin separately.
BAND = 0.99
_AREA = 160.0  # of the largest point, in square points


def plot_reliability(
    frame: pd.DataFrame, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Observed frequency against predicted probability; a calibrated model is on the diagonal.

    Error bars are two standard errors, and the area of a point is proportional to its number of
    rows. Several calls on the same axes compare models.

    :param frame: one row per bin with the columns predicted, observed, count and standard_error.
        Bins with count 0 are omitted, and a NaN standard error draws no bar.
    :param label: name of the curve in the legend.
    :param ax: axes to draw on and to return; by default new ones.

    >>> from matplotlib.figure import Figure
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"predicted": [0.1, 0.6], "observed": [0.15, 0.55]})
    >>> frame = frame.assign(count=[80, 40], standard_error=[0.04, 0.08])
    >>> plot_reliability(frame, label="GCM", ax=Figure().subplots()).get_xlabel()
    'predicted probability'
    """
    frame = frame[frame["count"] > 0]
    predicted, observed, count = frame["predicted"], frame["observed"], frame["count"]
    ax = axes_or_new(ax)
    color = next_color(ax)
    if not any(line.get_gid() == "calibrated" for line in ax.lines):
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", gid="calibrated", label="calibrated")
    errors = 2.0 * frame["standard_error"]
    ax.errorbar(predicted, observed, errors, color=color, capsize=3, label=legend_name(label))
    area = _AREA * count / count.max()
    ax.scatter(predicted, observed, area, color=color, alpha=0.6, linewidths=0, zorder=3)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("observed frequency (± 2 standard errors)")
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)  # error bars may exceed this range
    ax.legend(loc="upper left")
    return as_it_is(ax)


def plot_ranks(
    ranks: ArrayLike,
    *,
    num_draws: int,
    bins: int | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the ranks of simulation-based calibration, with a band for uniform ranks.

    If the posterior is correct, the ranks are uniform on 0..num_draws (Talts et al. 2018), and each
    bin is outside the band with a probability of at most 1 %. A high middle indicates a posterior
    that is too wide, a low middle one that is too narrow, and a slope one that is biased.

    :param ranks: number of draws below the true value, integers in 0..num_draws, [n].
    :param num_draws: number of posterior draws behind every rank.
    :param bins: number of bins; by default about 20 that contain equally many ranks. If that is
        impossible, the band follows the number of ranks in each bin.
    :param label: name of the quantity.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for ranks that are not integers in 0..num_draws, or more bins than ranks.

    >>> from matplotlib.figure import Figure
    >>> import torch
    >>> ranks = torch.randint(0, 100, (500,), generator=torch.Generator().manual_seed(0))
    >>> plot_ranks(ranks, num_draws=99, label="z[0]", ax=Figure().subplots()).get_xlabel()
    'rank of z[0] among 99 posterior draws'
    """
    values = positive_int("num_draws", num_draws) + 1
    ranks = numbers("ranks", ranks)
    if ranks.ndim != 1 or len(ranks) == 0:
        raise ValueError(f"ranks must have shape [n], got {ranks.shape}")
    invalid = (ranks != np.round(ranks)) | (ranks < 0) | (ranks > num_draws)
    if invalid.any():
        raise ValueError(
            f"ranks must be integers in 0..{num_draws}, got {ranks[invalid][:5].tolist()}"
        )
    bins = _even_bins(values) if bins is None else positive_int("bins", bins)
    if bins > values:
        raise ValueError(f"bins must be at most the {values} different ranks, got {bins}")
    ax = axes_or_new(ax)
    # Edges between integers, so that no rank is on an edge.
    edges = np.round(np.linspace(0, values, bins + 1)) - 0.5
    share = np.diff(edges) / values
    low, high = binom.interval(BAND, len(ranks), share)
    ax.hist(
        ranks, edges.tolist(), color=next_color(ax), alpha=0.7, edgecolor="white", linewidth=0.5
    )
    band = f"{BAND:.0%} of uniform ranks"
    ax.stairs(high, edges, baseline=low, fill=True, color=GREY, alpha=0.3, zorder=3, label=band)
    ax.stairs(len(ranks) * share, edges, baseline=None, color="black", linewidth=1.0, zorder=4)
    ax.set_xlabel(f"rank of {label or 'the true value'} among {num_draws} posterior draws")
    ax.set_ylabel("number of simulations")
    legend_above(ax, bottom=0.0)
    return as_it_is(ax)


def _even_bins(values: int) -> int:
    """The divisor of the number of ranks that is closest to 20, or 20 if there is none near it."""
    if values <= 20:
        return values
    even = [bins for bins in range(10, 41) if values % bins == 0]
    return min(even, key=lambda bins: abs(bins - 20), default=20)
