"""Helpers of all figures: axes, names as they are, distinguishable colours, ticks of shares."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator

from pyro_gcm._utils.validation import ArrayLike, as_tensor

Array = npt.NDArray[np.float64]

#: The colour-blind safe palette of Okabe and Ito, without yellow, which is faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "0.45"
#: How text is drawn as it is, whatever the settings: two "$" in a name do not make a formula of it.
AS_IT_IS: dict[str, Any] = {"parse_math": False, "usetex": False}
#: Characters of a line of text, at most.
_LINE = 56


def axes_or_new(ax: Axes | None) -> Axes:
    """`ax`, or the axes of a new figure."""
    return plt.subplots(layout="constrained")[1] if ax is None else ax


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


class _Shares(MaxNLocator):
    """Ticks in [0, 1], also on an axis that extends further."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        ticks = np.asarray(super().tick_values(vmin, vmax))
        return ticks[(ticks > -1e-9) & (ticks < 1.0 + 1e-9)].tolist()


def ticks_of_shares(axis: Axis, percent: bool = False) -> None:
    """Ticks of probabilities, none of them outside [0, 1].

    :param percent: whether they are written in percent, with the decimals that they need.
    """
    axis.set_major_locator(_Shares(nbins=8, steps=[1, 2, 5, 10]))
    if percent:
        axis.set_major_formatter(lambda tick, _: f"{100.0 * tick:.6g}%")


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
