"""Predicted survival of groups of rows beside Kaplan and Meier's estimate from the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from pyro_gcm._utils.validation import ArrayLike, kind, shown, without_tensor
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.diagnostics.kaplan_meier import kaplan_meier
from pyro_gcm.plots._axes import GREY, PALETTE, as_it_is, axes_or_new, legend_name, numbers

Array = npt.NDArray[np.float64]
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

    :param times: rising times, [T].
    :param survival: predicted Pr(T > t) of n rows, [n, T], such as
        `model.predictive(x, r).survival(times)`, or
        `estimator.predict_survival_function(X, return_array=True, times=times)`.
    :param y: exact and right-censored times of the rows.
    :param groups: a label for each row, [n], of at most 7; all rows are one group by default.
    :param level: of the bands of the estimates, for each time by itself.
    :param at_risk: whether the numbers of rows at risk stand below the axis.
    :param time_name: name of the times, with their unit.
    :param ax: axes to draw on and to return; by default new ones.
    :raises TypeError: if y is no `SurvivalTimes`.
    :raises ValueError: for wrong shapes, values outside [0, 1] or too many groups, and for a group
        without events.

    >>> from matplotlib.figure import Figure
    >>> from pyro_gcm.data.survival_times import SurvivalTimes
    >>> y = SurvivalTimes.right_censored([2.0, 3.0, 4.0], [True, True, False])
    >>> survival = [[0.8, 0.5], [0.7, 0.4], [0.9, 0.6]]
    >>> plot_survival([2.0, 3.0], survival, y, ax=Figure().subplots()).get_ylabel()
    'probability of no event'
    """
    if not isinstance(y, SurvivalTimes):
        raise TypeError(f"y must be data.SurvivalTimes, got {kind(y)}")
    at, curves = numbers("times", times), numbers("survival", survival)
    _check(at, curves, y)
    labels, codes = _groups(groups, len(y))
    ax = axes_or_new(ax)
    end = float(at[-1])
    for code, label in enumerate(labels):
        rows, color = codes == code, PALETTE[code]
        found = kaplan_meier(y[rows], level)
        steps = np.append(0.0, found["time"].to_numpy())
        shown = steps <= end
        name = "" if groups is None else legend_name(f"{label}: ")
        smooth = np.append(1.0, curves[rows].mean(0))
        ax.plot(np.append(0.0, at), smooth, color=color, linewidth=2.0, label=f"{name}predicted")
        estimate = _to_end(steps[shown], found["survival"], end)
        ax.step(*estimate, where="post", color=color, linewidth=1.0, label=f"{name}Kaplan-Meier")
        lower, upper = (_to_end(steps[shown], found[part], end) for part in ("lower", "upper"))
        ax.fill_between(*lower, upper[1], step="post", color=color, alpha=0.15, linewidth=0)
    ax.set_xlim(0.0, end)
    ax.set_ylim(0.0, 1.03)
    ax.set_xlabel(time_name)
    ax.set_ylabel("probability of no event")
    ax.legend(fontsize="small")
    if at_risk:
        _number_at_risk(ax, y, labels, codes, groups is not None)
    return as_it_is(ax)


def _check(at: Array, curves: Array, y: SurvivalTimes) -> None:
    if at.ndim != 1 or not len(at) or not (at > 0.0).all() or (np.diff(at) <= 0.0).any():
        raise ValueError("times must be above 0 and rise, [T]")
    if curves.shape != (len(y), len(at)):
        raise ValueError(
            f"survival must have a row for each of y and a column for each of times, shape "
            f"{(len(y), len(at))}, got {curves.shape}"
        )
    if not ((curves >= 0.0) & (curves <= 1.0)).all():
        raise ValueError(
            f"survival must be in [0, 1], got values from {curves.min():g} to {curves.max():g}"
        )


def _groups(groups: Sequence[Any] | None, rows: int) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Labels, and the index of that of every row."""
    if groups is None:
        return ["all rows"], np.zeros(rows, dtype=np.intp)
    try:
        found = pd.Categorical(without_tensor(groups))
    except (TypeError, ValueError) as error:
        raise ValueError(f"groups must be labels, got {shown(groups)}: {error}") from error
    if len(found) != rows:
        raise ValueError(f"groups must have a label for each of the {rows} rows, got {len(found)}")
    codes = np.asarray(found.codes, dtype=np.intp)
    labels = [label for code, label in enumerate(found.categories) if (codes == code).any()]
    if (codes < 0).any():
        raise ValueError("groups must have no missing label")
    if len(labels) > len(PALETTE):
        raise ValueError(f"groups must be at most {len(PALETTE)}, got {len(labels)}")
    there = [list(found.categories).index(label) for label in labels]
    return labels, np.searchsorted(there, codes)


def _to_end(steps: Array, values: Any, end: float) -> tuple[Array, Array]:
    """Times and values of steps from (0, 1) on, carried on to the end."""
    found = np.append(1.0, np.asarray(values))[: len(steps)]
    return np.append(steps, end), np.append(found, found[-1])


def _number_at_risk(
    ax: Axes, y: SurvivalTimes, labels: list[Any], codes: npt.NDArray[np.intp], named: bool
) -> None:
    """Numbers of rows under observation, below the ticks of the axis."""
    last, entry = y.lower.numpy(), y.entry.numpy()
    end = ax.get_xlim()[1]
    ticks = [float(tick) for tick in ax.get_xticks() if 0.0 <= tick <= end]
    options: Any = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
    options |= {"va": "top", "fontsize": "small", "annotation_clip": False}
    height = _FIRST
    if named:
        ax.annotate("at risk", (0.0, 0.0), (-12.0, height), ha="right", color=GREY, **options)
        height -= _LINE
    for code, label in enumerate(labels):
        color, name = PALETTE[code], str(label) if named else "at risk"
        ax.annotate(name, (0.0, 0.0), (-12.0, height), ha="right", color=color, **options)
        for tick in ticks:
            count = int(((last >= tick) & (entry <= tick) & (codes == code)).sum())
            place = (0.0, height)
            ax.annotate(str(count), (tick, 0.0), place, ha="center", color=color, **options)
        height -= _LINE
