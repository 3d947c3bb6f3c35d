"""Helpers of all figures: colours, legends and ticks."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from plot_toys import MIDDLE, X, contour_paths, trained

from pyro_gcm.plots import plot_cost_density, plot_cost_pairs, plot_response_curves
from pyro_gcm.plots.axes import PALETTE, axes_or_new, next_color, ticks_of_shares


def test_colours_are_different_visible_on_white_and_repeat_after_the_last() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
    channels = [[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in PALETTE]
    assert np.dot(channels, [0.21, 0.72, 0.07]).max() < 0.75  # luminance
    ax, seen = axes_or_new(None), []
    for _ in range(len(PALETTE) + 1):
        seen.append(next_color(ax))
        ax.errorbar([0], [0], [1])
    assert seen == [*PALETTE, PALETTE[0]]


def test_legends_do_not_cover_curves() -> None:
    for plot in (plot_cost_density, plot_cost_pairs, plot_response_curves):
        fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
        rows = X[:7] if plot is plot_response_curves else X[0]
        plot(trained(p0="constant"), rows, r=MIDDLE, ax=ax)
        fig.canvas.draw()
        box = ax.get_legend().get_window_extent()
        curves = [line.get_path() for line in ax.lines if len(line.get_xdata()) > 2]
        for path in contour_paths(ax) if plot is plot_cost_pairs else curves:
            points = ax.transData.transform(path.vertices)
            assert not any(box.contains(*point) for point in points), plot


def test_ticks_of_shares_are_shares_with_the_decimals_that_they_need() -> None:
    for low, high, ticks in (
        (-0.05, 1.4, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (-0.01, 0.112, ["0%", "2%", "4%", "6%", "8%", "10%"]),
        (0.051, 0.0632, ["5.2%", "5.4%", "5.6%", "5.8%", "6%", "6.2%"]),
    ):
        fig, ax = plt.subplots(layout="constrained")
        ax.set_ylim(low, high)
        ticks_of_shares(ax.yaxis, percent=True)
        fig.canvas.draw()
        labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        assert [text.get_text() for tick, text in labels if low <= tick <= high] == ticks
