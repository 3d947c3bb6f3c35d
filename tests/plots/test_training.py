"""Losses by epoch, and bounds by number of particles."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from plot_toys import BOUND, R, X, legend

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.plots import plot_bound, plot_history


def bars(ax: Axes) -> Any:
    """Lower and upper ends of error bars, in order of x, [points, 2]."""
    _, _, (segments,) = ax.containers[0]
    return np.array([segment[:, 1] for segment in segments.get_segments() if len(segment)])


def trained(**options: Any) -> FitResult:
    return fit(GCM(3, 2), X, R, (R[:, 0] > 60).float(), epochs=6, progress=False, **options)


def test_losses_of_a_result_and_its_best_epoch() -> None:
    result = trained(validation=0.2, learning_rate=0.02)
    ax = plot_history(result)
    training, validation, best = ax.lines
    np.testing.assert_array_equal(training.get_xdata(), [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(training.get_ydata(), result.history["loss"])
    np.testing.assert_array_equal(validation.get_ydata(), result.history["validation_loss"])
    lowest = result.history.set_index("epoch")["validation_loss"].idxmin()
    assert best.get_xdata() == [lowest, lowest]
    assert legend(ax) == ["training rows", "validation rows", f"best epoch, {lowest}"]
    assert legend(plot_history(result.history)) == ["training rows", "validation rows"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epoch", "minus the bound (nats per row)")
    ax = plot_history(result.history[["epoch", "loss"]][:1], loss_name="pinball loss, a row")
    assert legend(ax) == ["training rows"]
    assert ax.get_ylabel() == "pinball loss, a row"
    assert ax.lines[0].get_marker() == "o"  # a single epoch is a point


def test_bounds_have_bars_of_two_standard_errors_and_ticks_of_all_curves() -> None:
    axes = plt.subplots()[1]
    ax = plot_bound(BOUND, label="prior", ax=axes)
    assert ax is axes
    line = ax.containers[0][0]
    assert line.get_xdata().tolist() == [1, 4, 16]
    assert line.get_ydata().tolist() == [-0.7, -0.6, -0.5]
    np.testing.assert_allclose(bars(ax), [[-0.76, -0.64], [-0.64, -0.56], [-0.52, -0.48]])
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "4", "16"]
    assert ax.get_xlabel() == "number of particles"
    assert ax.get_ylabel() == "bound (nats per row, ± 2 standard errors)"
    plot_bound(BOUND.assign(num_particles=[64, 1, 2]), label="posterior", ax=ax)
    assert ax.containers[0][0].get_color() != ax.containers[1][0].get_color()
    assert legend(ax) == ["prior", "posterior"]
    assert ax.get_xticks().tolist() == [1, 2, 4, 16, 64]
    without = plot_bound(BOUND.assign(standard_error=[np.nan, 0.1, 0.1]))
    without.figure.canvas.draw()
    np.testing.assert_allclose(bars(without), [[-0.9, -0.5], [-0.8, -0.4]])
    assert without.get_legend() is None
