"""The costs of a rising and of a falling prediction in each column, with their intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pyro_gcm.plots._axes import GREY, PALETTE, as_it_is, axes_or_new, columns


def plot_directions(suggested: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """The costs of both directions as points, their 95 % intervals as lines, on a log-like axis.

    The column in which a wrong direction costs most comes first; its evidence stands beside it.

    :param suggested: what `diagnostics.suggest_directions` returned.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for another table.

    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> row = {"evidence": "rising", "rising": -0.001, "rising_low": -0.002, "rising_high": 0.001}
    >>> row |= {"falling": 0.2, "falling_low": 0.1, "falling_high": 0.3}
    >>> ax = plot_directions(pd.DataFrame([row], ["debt"]), ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    'debt: rising'
    """
    ends = [f"{name}{end}" for name in ("rising", "falling") for end in ("", "_low", "_high")]
    columns("suggested", suggested, tuple(ends))
    ordered = suggested.iloc[suggested[["rising", "falling"]].max(axis=1).argsort()]
    ax, place = axes_or_new(ax), np.arange(len(ordered))
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    for color, shift, name, verb in zip(
        PALETTE, (0.15, -0.15), ("rising", "falling"), ("rise", "fall"), strict=False
    ):
        low, high = ordered[f"{name}_low"], ordered[f"{name}_high"]
        ax.hlines(place + shift, low, high, color=color, linewidth=2.0)
        ax.plot(ordered[name], place + shift, "o", color=color, label=f"if it may only {verb}")
    ax.set_xscale("symlog", linthresh=1e-3, linscale=0.5)
    ax.set_yticks(place, [f"{name}: {kind}" for name, kind in ordered["evidence"].items()])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set_ylim(-0.6, len(ordered) - 0.4)
    ax.set_xlabel("cost of the direction, nats a row")
    ax.legend(loc="lower right")
    return as_it_is(ax)
