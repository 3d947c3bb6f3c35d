"""Figures of directions: what the data say of each, effects of columns, and audits."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyro_gcm.audit import MonotonicityAudit
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


def plot_audit(audit: MonotonicityAudit, *, outcome_name: str = "prediction") -> Figure:
    """A histogram of the drops of all searches, and the prediction along the worst pair.

    Without a drop, bars count the pairs whose prediction rises, and those where it stays the same.

    Bins are quarters of a decade; a bin can have both colours, since the tolerance is relative for
    predictions above 1. The second panel, which an audit without violations lacks, shows the
    prediction along the straight line from the lower to the higher end of the worst violation, on
    which a monotone prediction would not decrease.

    :param audit: the result of `audit_monotonicity`.
    :param outcome_name: name of the prediction, with its unit.
    :returns: a new figure.

    >>> from pyro_gcm.audit import audit_monotonicity
    >>> x, r = np.zeros((50, 1)), np.linspace(0.0, 1.0, 50)[:, None]
    >>> audit = audit_monotonicity(lambda x, r: np.sin(4.0 * r[:, 0]), x, r, pairs=3000)
    >>> figure = plot_audit(audit)
    >>> figure.axes[-1].get_xlabel()
    'r[0]'
    >>> plt.close(figure)
    """
    panels = 1 if audit.witness is None else 2
    figure = plt.figure(figsize=(4.6 * panels, 3.6), layout="constrained")
    drops, *pair = np.atleast_1d(figure.subplots(1, panels))
    _histogram(drops, audit)
    if audit.witness is not None:
        draw_worst_pair(pair[0], audit, outcome_name)
        confirmed = "confirmed" if audit.witness.confirmed else "not confirmed"
        title = f"worst pair: row {audit.witness.row}, {confirmed}"
        pair[0].set_title(title, fontsize="medium")
    return figure


def _histogram(ax: Axes, audit: MonotonicityAudit) -> None:
    kinds = {"rounding": ("within tolerance", GREY), "violations": ("violation", PALETTE[1])}
    bins = audit.drops.groupby("exponent")[[*kinds]].sum()
    drops = audit.rounding + audit.violations
    ax.set_title(f"{drops:,} drops in {audit.pairs:,} pairs", fontsize="medium")
    if bins.empty:
        counts = [audit.pairs - audit.ties, audit.ties, 0]
        bars = ax.barh(["rises", "is equal", "drops"], counts, color=PALETTE[0])
        ax.bar_label(bars, [f" {count:,}" for count in counts])
        ax.margins(x=0.2)
        ax.set_xlabel("pairs of rows, by the prediction of the higher one")
        return
    left = 10.0 ** (bins.index.to_numpy(np.float64) / 4.0)
    bottom = np.zeros(len(bins))
    for kind, (label, color) in kinds.items():
        count, width = bins[kind].to_numpy(np.float64), left * (10.0**0.25 - 1.0)
        ax.bar(left, count, width, bottom, align="edge", color=color, label=label)
        bottom += count
    if audit.tolerance > 0:
        ax.axvline(audit.tolerance, color="black", linewidth=0.8, linestyle=":", label="tolerance")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.7, 3.0 * bottom.max())
    ax.set_xlabel("drop of the prediction")
    ax.set_ylabel("pairs of rows")
    ax.legend(fontsize="small")


def draw_worst_pair(ax: Axes, audit: MonotonicityAudit, outcome_name: str) -> None:
    """The prediction along the line between the two rows of the worst violation.

    :param audit: with a violation.
    """
    worst, names = audit.witness, audit.r_names
    assert worst is not None
    moved = np.flatnonzero(worst.r_low != worst.r_high)
    if len(moved) == 1:
        along = np.linspace(worst.r_low[moved[0]], worst.r_high[moved[0]], len(worst.segment))
        label = names[moved[0]]
    else:
        along = np.linspace(0.0, 1.0, len(worst.segment))
        listed = [names[j] for j in moved[:4]] + ["..."] * (len(moved) > 4)
        label = "from r_low (0) to r_high (1), moving " + ", ".join(listed)
    ends, drop = [worst.low, worst.high], f"drop of {worst.drop:.3g}"
    ax.plot(along, worst.segment, color=PALETTE[0], label="prediction")
    ax.plot(along[[0, -1]], ends, "o", color=PALETTE[1], label=drop)
    if along[-1] < along[0]:
        ax.invert_xaxis()  # so that the prediction should increase to the right
    ax.set_xlabel(label)
    ax.set_ylabel(outcome_name)
    ax.legend(fontsize="small")
    as_it_is(ax)
