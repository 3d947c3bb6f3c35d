"""The figure of an audit shows its counts and the worst pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyro_gcm.audit import MonotonicityAudit, audit_monotonicity
from pyro_gcm.plots import plot_audit

X, R = np.zeros((50, 1)), np.random.default_rng(1).random((50, 2))


def audit(function: Any, **options: Any) -> MonotonicityAudit:
    return audit_monotonicity(function, X, R, **{"pairs": 1500, "progress": False, **options})


def test_bars_add_up_to_the_drops() -> None:
    for tolerance in (1e-8, 0.0):
        found = audit(lambda x, r: -r[:, 0] + 0.0 * r[:, 1], tolerance=tolerance)
        assert (found.rounding > 0) == (tolerance > 0)
        figure = plot_audit(found)
        ax: Any = figure.axes[0]
        heights = [sum(bar.get_height() for bar in bars) for bars in ax.containers]
        assert heights == [found.rounding, found.violations]
        drops = found.rounding + found.violations
        assert ax.get_title() == f"{drops:,} drops in {found.pairs:,} pairs"
        edges = [[bar.get_x() for bar in bars if bar.get_height()] for bars in ax.containers]
        assert max(edges[0], default=0.0) <= tolerance < min(edges[1]) * 10**0.25
        figure.canvas.draw()


def test_prediction_is_drawn_along_the_worst_pair() -> None:
    found = audit(lambda x, r: r[:, 0] + r[:, 1], increasing=[0, -1])
    w = found.witness
    assert w is not None
    ax = plot_audit(found, outcome_name="sales (units)").axes[-1]
    line, ends = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), w.segment)
    np.testing.assert_array_equal(ends.get_xdata(), [w.r_low[1], w.r_high[1]])
    np.testing.assert_array_equal(ends.get_ydata(), [w.low, w.high])
    assert ax.get_xlabel() == "r[1]"
    assert ax.get_ylabel() == "sales (units)"
    assert ax.xaxis_inverted()  # from r_low on the left to r_high on the right
    both = plot_audit(audit(lambda x, r: -r.sum(1))).axes[-1]
    assert both.get_xlabel() == "from r_low (0) to r_high (1), moving r[0], r[1]"


def test_an_audit_without_drops_says_so() -> None:
    found = audit(lambda x, r: r[:, 0], searches=["random"])
    (ax,) = plot_audit(found).axes
    assert ax.get_title() == f"0 drops in {found.pairs:,} pairs"
