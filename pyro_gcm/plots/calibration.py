"""Calibration of probabilities, of survival curves and of posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import binom

from pyro_gcm._utils.validation import ArrayLike, positive_int, vector, without_tensor
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.diagnostics.predictive_checks import kaplan_meier
from pyro_gcm.plots.axes import (
    GREY,
    PALETTE,
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
    ranks: ArrayLike, *, num_draws: int, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Histogram of the ranks of simulation-based calibration, with a band for uniform ranks.

    If the posterior is correct, the ranks are uniform on 0..num_draws (Talts et al. 2018), and each
    bin is outside the band with a probability of at most 1 %. There are about 20 bins, that contain
    equally many ranks where that is possible, and the band follows how many. A high middle
    indicates a posterior that is too wide, a low middle one that is too narrow, and a slope one
    that is biased.

    :param ranks: number of draws below the true value, integers in 0..num_draws, [n].
    :param num_draws: number of posterior draws behind every rank.
    :param label: name of the quantity.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for ranks that are not integers in 0..num_draws.

    >>> from matplotlib.figure import Figure
    >>> import torch
    >>> ranks = torch.randint(0, 100, (500,), generator=torch.Generator().manual_seed(0))
    >>> plot_ranks(ranks, num_draws=99, label="z[0]", ax=Figure().subplots()).get_xlabel()
    'rank of z[0] among 99 posterior draws'
    """
    values = positive_int("num_draws", num_draws) + 1
    ranks = numbers("ranks", vector("ranks", ranks))
    invalid = (ranks != np.round(ranks)) | (ranks < 0) | (ranks > num_draws)
    if invalid.any():
        raise ValueError(
            f"ranks must be integers in 0..{num_draws}, got {ranks[invalid][:5].tolist()}"
        )
    ax = axes_or_new(ax)
    # Edges between integers, so that no rank is on an edge.
    edges = np.round(np.linspace(0, values, _even_bins(values) + 1)) - 0.5
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


#: Height of a line of numbers at risk, and where the first one stands below the axis, in points.
_LINE, _FIRST = 11.0, -34.0


def plot_survival(
    times: ArrayLike,
    survival: ArrayLike,
    y: SurvivalTimes,
    *,
    groups: Sequence[Any] | None = None,
    level: float = 0.95,
    at_risk: bool = True,
    time_name: str = "time",
    ax: Axes | None = None,
) -> Axes:
    """Mean predicted survival of groups of rows over their Kaplan-Meier estimates.

    A model is calibrated where its smooth curve runs inside the band around the steps of the same
    rows, which should be rows that it was not trained on. Groups by predicted risk show whether it
    tells rows apart as far as it says.

    :param times: rising times above 0, [T].
    :param survival: predicted Pr(T > t) of n rows, [n, T], such as
        `model.predictive(x, r).survival(times)`, or
        `estimator.predict_survival_function(X, return_array=True, times=times)`.
    :param y: exact and right-censored times of the rows.
    :param groups: a label for each row, [n], of at most 7; rows whose label is missing are left
        out. All rows are one group by default.
    :param level: of the bands of the estimates, for each time by itself.
    :param at_risk: whether the numbers of rows at risk stand below the axis.
    :param time_name: name of the times, with their unit.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for too many groups, and a group without events.

    >>> from matplotlib.figure import Figure
    >>> from pyro_gcm.data.survival_times import SurvivalTimes
    >>> y = SurvivalTimes.right_censored([2.0, 3.0, 4.0], [True, True, False])
    >>> survival = [[0.8, 0.5], [0.7, 0.4], [0.9, 0.6]]
    >>> plot_survival([2.0, 3.0], survival, y, ax=Figure().subplots()).get_ylabel()
    'probability of no event'
    """
    grid, predicted = numbers("times", times), numbers("survival", survival)
    labels = pd.Series([""] * len(y) if groups is None else without_tensor(groups))
    codes, names = labels.factorize(sort=True)
    if len(names) > len(PALETTE):
        raise ValueError(f"groups must be at most {len(PALETTE)}, got {len(names)}")
    estimates = [kaplan_meier(y[codes == code], level) for code in range(len(names))]
    ax = axes_or_new(ax)
    for code, (name, color) in enumerate(zip(names, PALETTE, strict=False)):
        start = "" if groups is None else legend_name(f"{name}: ")
        smooth = np.append(1.0, predicted[codes == code].mean(0))
        ax.plot(np.append(0.0, grid), smooth, color=color, linewidth=2.0, label=f"{start}predicted")
        steps = _steps(estimates[code], float(grid[-1]))
        estimate: Any = {"color": color, "linewidth": 1.0, "label": f"{start}Kaplan-Meier"}
        ax.step(steps["time"], steps["survival"], where="post", **estimate)
        band = steps["time"], steps["lower"], steps["upper"]
        ax.fill_between(*band, step="post", color=color, alpha=0.15, linewidth=0)
    ax.set_xlim(0.0, grid[-1])
    ax.set_ylim(0.0, 1.03)
    ax.set_xlabel(time_name)
    ax.set_ylabel("probability of no event")
    ax.legend(fontsize="small")
    if at_risk:
        _number_at_risk(ax, y, codes, [] if groups is None else list(names))
    return as_it_is(ax)


def _steps(estimate: pd.DataFrame, end: float) -> pd.DataFrame:
    """The steps up to the end, from a probability of 1 at time 0 on."""
    start = {"time": 0.0, "survival": 1.0, "lower": 1.0, "upper": 1.0}
    steps = pd.concat([pd.DataFrame([start]), estimate[estimate["time"] <= end][[*start]]])
    return pd.concat([steps, steps[-1:].assign(time=end)])


def _number_at_risk(
    ax: Axes, y: SurvivalTimes, codes: npt.NDArray[np.intp], names: list[Any]
) -> None:
    """Numbers of rows under observation, below the ticks of the axis."""
    last, entry = y.lower.numpy(), y.entry.numpy()
    ticks = [float(tick) for tick in ax.get_xticks() if 0.0 <= tick <= ax.get_xlim()[1]]
    below: Any = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
    below |= {"va": "top", "fontsize": "small", "annotation_clip": False}
    lines = [*zip(range(len(names)), names, PALETTE, strict=False)] or [(0, "at risk", PALETTE[0])]
    height = _FIRST
    if names:
        ax.annotate("at risk", (0.0, 0.0), (-12.0, height), ha="right", color=GREY, **below)
        height -= _LINE
    for code, name, color in lines:
        ax.annotate(str(name), (0.0, 0.0), (-12.0, height), ha="right", color=color, **below)
        for tick in ticks:
            count = int(((last >= tick) & (entry <= tick) & (codes == code)).sum())
            place = (0.0, height)
            ax.annotate(str(count), (tick, 0.0), place, ha="center", color=color, **below)
        height -= _LINE
