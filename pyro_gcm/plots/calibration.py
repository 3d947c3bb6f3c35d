"""Are probabilities right, and are posteriors? Reliability curves and rank histograms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes

from pyro_gcm._validation import ArrayLike, positive_int
from pyro_gcm.plots._axes import (
    GREY,
    Array,
    axes_or_new,
    columns,
    legend_above,
    next_color,
    numbers,
    two_errors,
)

#: Probability of the band of a rank histogram, for each bin by itself.
BAND = 0.99
_AREA = 160.0  # of the largest point, in square points


def plot_reliability(
    frame: pd.DataFrame, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Observed frequency against predicted probability; a calibrated model is on the diagonal.

    A bar is two standard errors to either side, the area of a point is in proportion to its rows.
    Several calls on the same axes compare models.

    :param frame: columns predicted, observed, count and standard_error, one row a bin; bins of
        count 0 are left out, and a NaN standard error draws no bar.
    :param label: name of this curve in the legend.
    :returns: the axes, `ax` or new ones.
    :raises ValueError: for a frame without these columns, or probabilities outside of [0, 1].

    >>> from matplotlib.figure import Figure
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"predicted": [0.1, 0.6], "observed": [0.15, 0.55]})
    >>> frame = frame.assign(count=[80, 40], standard_error=[0.04, 0.08])
    >>> plot_reliability(frame, label="GCM", ax=Figure().subplots()).get_xlabel()
    'predicted probability'
    """
    wanted = ("predicted", "observed", "count", "standard_error")
    table = columns("frame", frame, wanted)
    if (table[2] < 0).any() or not (table[2] > 0).any():
        raise ValueError("frame must count rows: no count below 0, and one above")
    predicted, observed, count, standard_error = (column[table[2] > 0] for column in table)
    for name, share in (("predicted", predicted), ("observed", observed)):
        if not ((share >= 0) & (share <= 1)).all():
            raise ValueError(
                f"frame must have {name} in [0, 1], got values from {share.min():g} to "
                f"{share.max():g}"
            )
    errors = two_errors("frame", standard_error)
    ax = axes_or_new(ax)
    color = next_color(ax)
    if not any(line.get_gid() == "calibrated" for line in ax.lines):
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", gid="calibrated", label="calibrated")
    ax.errorbar(predicted, observed, errors, color=color, capsize=3, label=label)
    area = _AREA * count / count.max()
    ax.scatter(predicted, observed, area, color=color, alpha=0.6, linewidths=0, zorder=3)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("observed frequency (± 2 standard errors)")
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)  # bars may go on, frequencies cannot
    ax.legend(loc="upper left")
    return ax


def plot_ranks(
    ranks: ArrayLike,
    *,
    num_draws: int,
    bins: int | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the ranks of simulation-based calibration, with a band for uniform ranks.

    The rank of a true value among draws from its posterior is uniform on 0..num_draws if the
    posterior is right (Talts et al. 2018). A bin is outside of the band with probability at most
    1 % each when it is. A hump is a posterior that is too wide, a valley one that is too narrow, a
    slope one that is shifted.

    :param ranks: [n], integers in 0..num_draws: how many draws are below the true value.
    :param num_draws: draws behind every rank.
    :param bins: number of bins; by default about 20 that hold equally many ranks. Where they
        cannot, the band follows the number of ranks in each bin.
    :param label: name of the quantity.
    :returns: the axes, `ax` or new ones.
    :raises ValueError: for ranks that are no integers in 0..num_draws, or more bins than ranks.

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
    strange = (ranks != np.round(ranks)) | (ranks < 0) | (ranks > num_draws)
    if strange.any():
        raise ValueError(
            f"ranks must be integers in 0..{num_draws}, got {ranks[strange][:5].tolist()}"
        )
    bins = _even_bins(values) if bins is None else positive_int("bins", bins)
    if bins > values:
        raise ValueError(f"bins must be at most the {values} different ranks, got {bins}")
    ax = axes_or_new(ax)
    # Edges between integers, so that a bin holds whole ranks.
    edges = np.round(np.linspace(0, values, bins + 1)) - 0.5
    share = np.diff(edges) / values
    low, high = _binomial_interval(len(ranks), share)
    ax.hist(
        ranks, edges.tolist(), color=next_color(ax), alpha=0.7, edgecolor="white", linewidth=0.5
    )
    band = f"{BAND:.0%} of uniform ranks"
    ax.stairs(high, edges, baseline=low, fill=True, color=GREY, alpha=0.3, zorder=3, label=band)
    ax.stairs(len(ranks) * share, edges, baseline=None, color="black", linewidth=1.0, zorder=4)
    ax.set_xlabel(f"rank of {label or 'the true value'} among {num_draws} posterior draws")
    ax.set_ylabel("number of simulations")
    legend_above(ax, bottom=0.0)
    return ax


def _even_bins(values: int) -> int:
    """The number of bins near 20 that divides the number of ranks; else 20, or each its own."""
    if values <= 20:
        return values
    even = [bins for bins in range(10, 41) if values % bins == 0]
    return min(even, key=lambda bins: abs(bins - 20), default=20)


def _binomial_interval(n: int, share: Array) -> tuple[Array, Array]:
    """The central interval of probability BAND of a binomial count, for each share."""
    k = torch.arange(n + 1, dtype=torch.float64)
    log_choose = torch.lgamma(k[-1] + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    low, high = np.empty_like(share), np.empty_like(share)
    for p in np.unique(share):
        log_p = log_choose + torch.xlogy(k, torch.tensor(p)) + torch.special.xlog1py(n - k, -p)
        below = log_p.exp().cumsum(0)  # Pr(count <= k)
        low[share == p] = int((below < 0.5 * (1.0 - BAND)).sum())
        high[share == p] = int((below < 0.5 * (1.0 + BAND)).sum())
    return low, high
