"""Average marginal effects and elasticities, with their bands."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pyro_gcm.plots._axes import GREY, PALETTE, as_it_is, axes_or_new, columns

_LABELS = {"effect": "average marginal effect", "elasticity": "average elasticity"}


def plot_marginal_effects(
    effects: pd.DataFrame, kind: str = "effect", *, ax: Axes | None = None
) -> Axes:
    """The estimates of one kind as points, their bands as lines, the largest above.

    :param effects: what `diagnostics.marginal_effects` returned.
    :param kind: "effect", of the covariates, or "elasticity", in the revenues.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for another table, and one without rows of this kind.

    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> row = {"kind": "effect", "estimate": 0.2, "lower": 0.1, "upper": 0.3}
    >>> plot_marginal_effects(pd.DataFrame([row], ["age"]), ax=Figure().subplots()).get_xlabel()
    'average marginal effect'
    """
    columns("effects", effects, ("estimate", "lower", "upper"))
    chosen = effects[effects["kind"] == kind] if kind in _LABELS else effects[:0]
    if chosen.empty:
        raise ValueError(f"kind must be one of {list(_LABELS)} that effects has, got {kind!r}")
    chosen = chosen.sort_values("estimate", key=np.abs)
    ax = axes_or_new(ax)
    place = np.arange(len(chosen))
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    ax.hlines(place, chosen["lower"], chosen["upper"], color=PALETTE[0], linewidth=2.0)
    ax.plot(chosen["estimate"], place, "o", color=PALETTE[0])
    ax.set_yticks(place, [str(name) for name in chosen.index])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set_ylim(-0.5, len(chosen) - 0.5)
    ax.set_xlabel(_LABELS[kind])
    return as_it_is(ax)
