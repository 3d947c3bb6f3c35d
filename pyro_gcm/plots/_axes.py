"""Helpers of all figures: axes, names, distinguishable colours and checks of data frames."""

from __future__ import annotations

import math
import textwrap
from numbers import Integral
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from pyro_gcm._utils.validation import ArrayLike, as_tensor

Array = npt.NDArray[np.float64]

#: The colour-blind safe palette of Okabe and Ito, without yellow, which is faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "0.45"
#: Perceptually uniform and colour-blind safe.
COLORMAP = "cividis"
#: How text is drawn as it is, whatever the settings: two "$" in a name do not make a formula of it.
AS_IT_IS: dict[str, Any] = {"parse_math": False, "usetex": False}
#: Characters of a line of text, at most.
_LINE = 56


def axes_or_new(ax: Axes | None) -> Axes:
    """`ax`, or the axes of a new figure."""
    if ax is None:
        return plt.subplots(layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise ValueError(f"ax must be one matplotlib Axes, got {type(ax).__name__}")
    return ax


def as_it_is(ax: Axes) -> Axes:
    """The axes, with texts that are drawn as they are, long ones in lines."""
    legend = ax.get_legend()
    for text in (ax.xaxis.label, ax.yaxis.label, *ax.texts, *(legend.texts if legend else ())):
        text.update(AS_IT_IS)
        lines = [textwrap.wrap(line, _LINE) or [""] for line in text.get_text().splitlines()]
        if any(len(line) > 1 for line in lines):
            text.set_text("\n".join(part for line in lines for part in line))
    return ax


def legend_name(name: str | None) -> str | None:
    """A name as a legend shows it: matplotlib leaves out one that begins with "_" or is empty."""
    return f" {name}" if name is not None and name[:1] in ("", "_") else name


def next_color(ax: Axes) -> str:
    """The colour of the next curve with error bars, or histogram, on these axes."""
    return PALETTE[len(ax.containers) % len(PALETTE)]


def numbers(name: str, value: ArrayLike) -> Array:
    """Convert a value to a float64 numpy array of any shape."""
    return np.asarray(as_tensor(name, value).double().cpu().numpy())


def columns(name: str, frame: Any, wanted: tuple[str, ...]) -> tuple[Array, ...]:
    """Columns of a DataFrame as float64 arrays.

    :raises ValueError: if it is not a DataFrame with rows and these numeric columns.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"{name} must be a DataFrame, got {type(frame).__name__}")
    missing = [column for column in wanted if column not in frame]
    if missing:
        raise ValueError(f"{name} has no columns {missing}, it has {list(frame.columns)}")
    if frame.empty:
        raise ValueError(f"{name} has no rows, at least one is needed")
    try:
        return tuple(frame[column].to_numpy(np.float64) for column in wanted)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric in {list(wanted)}: {error}") from error


def is_index(value: Any, size: int) -> bool:
    """Whether a value is an integer in 0..size - 1."""
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < size


def two_errors(name: str, standard_error: Array) -> Array:
    """Half-lengths of error bars of two standard errors; a NaN standard error draws no bar."""
    if (standard_error < 0).any():
        raise ValueError(f"{name} has a standard_error below 0: {standard_error.min():g}")
    return 2.0 * standard_error


def legend_above(ax: Axes, bottom: float | None = None) -> None:
    """Add a legend above the data, and extend the y axis for it.

    :param bottom: lower end of the y axis, by default slightly below the data.
    """
    _, labels = ax.get_legend_handles_labels()
    # As many columns as fit in five inches.
    ncols = min(4, max(1, 52 // (6 + max(map(len, labels)))))
    lines = math.ceil(len(labels) / ncols)
    low = ax.dataLim.y0 if bottom is None else bottom
    height = ax.dataLim.y1 - low or max(abs(low), 1.0)
    # The fraction of the axes that the legend takes in a figure with a height of 3.5 inches.
    share = min(0.05 + 0.075 * lines, 0.5)
    margin = 0.04 * height if bottom is None else 0.0
    # auto=True, so that later curves on these axes still extend the limits.
    ax.set_ylim(low - margin, low + height / (1.0 - share), auto=True)
    ax.legend(loc="upper right", ncols=ncols, columnspacing=1.2)
