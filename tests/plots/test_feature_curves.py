"""Curves of a column: the histogram below, the legend in the free corner, levels as ticks."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from plot_toys import legend

from pyro_gcm.plots import plot_feature_curve


def test_the_histogram_stands_below_the_curve_and_the_legend_beside_it() -> None:
    debt = np.linspace(0.0, 40.0, 9)
    for sign in (1.0, -1.0):
        risk = 0.5 + sign * 0.01 * debt
        curve = pd.DataFrame(
            {"debt": debt, "prediction": risk, "lower": risk - 0.02, "upper": risk + 0.02}
        )
        fig, ax = plt.subplots(layout="constrained")
        rows = [*debt, None, 3.0]
        plot_feature_curve(curve, rows=rows, base_rate=0.5, percent=True, ax=ax)
        fig.canvas.draw()
        assert legend(ax) == ["mean prediction", "range of the members", "rate in these rows"]
        assert sum(bar.get_height() > 0 for bar in ax.patches) == len({*debt, 3.0})
        top = max(bar.get_window_extent().ymax for bar in ax.patches)
        box = ax.get_legend().get_window_extent()
        for end in ("lower", "prediction", "upper"):
            points = ax.transData.transform(curve[["debt", end]].to_numpy())
            assert points[:, 1].min() > top
            assert not any(box.contains(*point) for point in points)
        assert all(text.get_text().endswith("%") for text in ax.get_yticklabels())


def test_levels_are_ticks() -> None:
    curve = pd.DataFrame({"grade": ["low", "high"], "prediction": [0.1, 0.2]})
    ax = plot_feature_curve(curve, rows=["low", "low", "high", None])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["low", "high"]
    low, high = (bar.get_height() for bar in ax.patches)
    assert low == 2 * high > 0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("grade", "prediction")
