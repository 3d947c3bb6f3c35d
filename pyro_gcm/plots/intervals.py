"""Estimates with their intervals, a line each: directions of columns, and marginal effects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pyro_gcm.plots.axes import AS_IT_IS, GREY, PALETTE, as_it_is, axes_or_new

_EFFECTS = {"effect": "average marginal effect", "elasticity": "average elasticity"}


def plot_directions(suggested: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """The costs of both directions as points, their 95 % intervals as lines, on a log-like axis.

    The column in which a wrong direction costs most comes first; its evidence stands beside it.

    :param suggested: what `diagnostics.suggest_directions` returned.
    :param ax: axes to draw on and to return; by default new ones.

    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> row = {"evidence": "rising", "rising": -0.001, "rising_low": -0.002, "rising_high": 0.001}
    >>> row |= {"falling": 0.2, "falling_low": 0.1, "falling_high": 0.3}
    >>> ax = plot_directions(pd.DataFrame([row], ["debt"]), ax=Figure().subplots())
    >>> ax.get_yticklabels()[0].get_text()
    'debt: rising'
    """
    ordered = suggested.iloc[suggested[["rising", "falling"]].max(axis=1).argsort()]
    names = [f"{name}: {evidence}" for name, evidence in ordered["evidence"].items()]
    ax = axes_or_new(ax)
    for name, color, shift in (("rising", PALETTE[0], 0.15), ("falling", PALETTE[1], -0.15)):
        values = ordered[[f"{name}_low", name, f"{name}_high"]]
        label = f"if it may only {'rise' if name == 'rising' else 'fall'}"
        _intervals(ax, values, names, color, shift, label)
    ax.set_xscale("symlog", linthresh=1e-3, linscale=0.5)
    ax.set_xlabel("cost of the direction, nats a row")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    return as_it_is(ax)


def plot_marginal_effects(
    effects: pd.DataFrame, kind: str = "effect", *, ax: Axes | None = None
) -> Axes:
    """The estimates of one kind as points, their bands as lines, the largest above.

    :param effects: what `diagnostics.marginal_effects` returned.
    :param kind: "effect", of the covariates, or "elasticity", in the revenues.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for a kind that the table does not have.

    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> row = {"kind": "effect", "estimate": 0.2, "lower": 0.1, "upper": 0.3}
    >>> plot_marginal_effects(pd.DataFrame([row], ["age"]), ax=Figure().subplots()).get_xlabel()
    'average marginal effect'
    """
    chosen = effects[effects["kind"] == kind].sort_values("estimate", key=np.abs)
    if chosen.empty:
        raise ValueError(f"kind must be one of {list(_EFFECTS)} that effects has, got {kind!r}")
    ax = axes_or_new(ax)
    _intervals(ax, chosen[["lower", "estimate", "upper"]], list(chosen.index), PALETTE[0])
    ax.set_xlabel(_EFFECTS[kind])
    return as_it_is(ax)


def _intervals(
    ax: Axes,
    values: pd.DataFrame,
    names: Sequence[object],
    color: str,
    shift: float = 0.0,
    label: str | None = None,
) -> None:
    """A line from the first column of `values` to the last, a point at the one between them."""
    low, estimate, high = values.to_numpy(np.float64).T
    place = np.arange(len(values))
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    ax.hlines(place + shift, low, high, color=color, linewidth=2.0)
    ax.plot(estimate, place + shift, "o", color=color, label=label)
    ax.set_yticks(place, [str(name) for name in names], **AS_IT_IS)
    ax.set_ylim(-0.6, len(values) - 0.4)
