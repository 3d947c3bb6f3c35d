"""Losses by epoch, bounds by number of particles, and draws of z coloured by the outcome."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from plot_toys import BINARY, BOUND, DRAWS, R, X, legend

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.plots import plot_bound, plot_history, plot_latent
from pyro_gcm.plots.axes import PALETTE


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


CONTINUOUS = 10.0 + torch.arange(12.0)


def offsets(collection: Any) -> Any:
    return np.asarray(collection.get_offsets())


def points(ax: Any) -> tuple[list[Any], list[Any]]:
    """The collections of means and of draws."""
    faint = [c for c in ax.collections if c.get_alpha() is not None]
    return [c for c in ax.collections if c not in faint and len(c.get_offsets())], faint


def test_binary_outcomes_have_two_colours() -> None:
    means = DRAWS.mean(0)
    for z in (DRAWS, means):  # means can be given without draws
        axes = plt.subplots()[1]
        ax = plot_latent(z, BINARY, dims=(2, 0), ax=axes)
        assert ax is axes
        for value, shown in enumerate(points(ax)[0]):
            np.testing.assert_allclose(offsets(shown), means[value == BINARY][:, [2, 0]], atol=1e-6)
            assert to_hex(shown.get_facecolor()[0]) == PALETTE[value].lower()
        assert legend(ax) == ["y = 0", "y = 1"]
    assert not points(ax)[1]
    assert legend(plot_latent(DRAWS, torch.ones(12))) == ["y = 1"]  # only those that occur
    assert legend(plot_latent(DRAWS, BINARY.bool(), outcome_name="won")) == ["won = 0", "won = 1"]
    assert ax.get_xlabel() == "posterior mean of z[2] (no unit)"
    assert ax.get_ylabel() == "posterior mean of z[0] (no unit)"


def test_continuous_outcome_has_a_colour_bar() -> None:
    ax = plot_latent(DRAWS, CONTINUOUS, outcome_name="consumption (mpg)", latent_name="u")
    (shown,), _ = points(ax)
    np.testing.assert_allclose(offsets(shown), DRAWS.mean(0)[:, :2], atol=1e-6)
    np.testing.assert_array_equal(shown.get_array(), CONTINUOUS)
    assert shown.get_clim() == (10.0, 21.0)
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylabel() == "consumption (mpg)"
    assert ax.get_legend() is None
    assert ax.get_xlabel() == "posterior mean of u[0] (no unit)"


def test_draws_are_faint_and_have_the_colour_of_their_row() -> None:
    _, (faint,) = points(plot_latent(DRAWS, CONTINUOUS, num_draws=500))
    every = {
        tuple(draw): y
        for row, y in zip(DRAWS.movedim(1, 0), CONTINUOUS.tolist(), strict=True)
        for draw in row[:, :2].double().tolist()
    }
    colours = zip(map(tuple, offsets(faint).tolist()), faint.get_array(), strict=True)
    assert dict(colours) == every
    _, faint = points(plot_latent(DRAWS, BINARY, num_draws=5))
    assert [len(offsets(c)) for c in faint] == [5 * 4, 5 * 8]
    assert not points(plot_latent(DRAWS, CONTINUOUS, num_draws=0))[1]
    _, (faint,) = points(plot_latent(torch.zeros(30, 3000, 2), torch.arange(3000.0)))
    assert len(offsets(faint)) <= 20_000
