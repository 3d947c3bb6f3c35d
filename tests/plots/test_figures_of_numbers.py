"""Figures of numbers: audits, calibration, columns, latents, survival and training."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.stats
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from plot_toys import BINARY, BOUND, CURVE, DRAWS, RATE, SURVIVAL, TIME, R, X, legend

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.audit import MonotonicityAudit, audit_monotonicity
from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.plots import (
    plot_audit,
    plot_bound,
    plot_feature_curve,
    plot_history,
    plot_latent,
    plot_ranks,
    plot_reliability,
    plot_survival,
)
from pyro_gcm.plots.axes import PALETTE

# The figure of an audit shows its counts and the worst pair


POINTS, REVENUES = np.zeros((50, 1)), np.random.default_rng(1).random((50, 2))


def audited(function: Any, **options: Any) -> MonotonicityAudit:
    return audit_monotonicity(
        function, POINTS, REVENUES, **{"pairs": 900, "progress": False, **options}
    )


def test_bars_add_up_to_the_drops() -> None:
    for tolerance in (1e-8, 0.0):
        found = audited(lambda x, r: -r[:, 0] + 0.0 * r[:, 1], tolerance=tolerance)
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
    found = audited(lambda x, r: r[:, 0] + r[:, 1], increasing=[0, -1])
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
    both = plot_audit(audited(lambda x, r: -r.sum(1))).axes[-1]
    assert both.get_xlabel() == "from r_low (0) to r_high (1), moving r[0], r[1]"


def test_an_audit_without_drops_says_so() -> None:
    found = audited(lambda x, r: r[:, 0], searches=["random"])
    (ax,) = plot_audit(found).axes
    assert ax.get_title() == f"0 drops in {found.pairs:,} pairs"


def ranks(n: int, num_draws: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, num_draws + 1, (n,), generator=torch.Generator().manual_seed(seed))


def steps(ax: Axes) -> tuple[Any, Any]:
    """The data of the band and of the expectation."""
    band, expected = [patch for patch in ax.patches if isinstance(patch, StepPatch)]
    return band.get_data(), expected.get_data()


def heights(ax: Axes) -> list[float]:
    return [bar.get_height() for bar in ax.containers[0]]


# Reliability


def test_curve_has_bars_of_two_standard_errors_and_areas_by_count() -> None:
    ax = plot_reliability(CURVE, label="GCM")
    line, _, (segments,) = ax.containers[0]
    assert line.get_xdata().tolist() == [0.1, 0.4, 0.8]
    assert line.get_ydata().tolist() == [0.2, 0.35, 0.9]
    ends = np.array([segment[:, 1] for segment in segments.get_segments()])
    np.testing.assert_allclose(ends, [[0.12, 0.28], [0.21, 0.49], [0.78, 1.02]])
    area = ax.collections[-1].get_sizes()
    np.testing.assert_allclose(area / area[0], [1.0, 0.5, 0.25])
    assert legend(ax) == ["calibrated", "GCM"]
    assert ax.get_xlabel() == "predicted probability"
    assert ax.get_ylabel() == "observed frequency (± 2 standard errors)"


def test_models_share_one_diagonal_and_empty_bins_are_omitted() -> None:
    ax = plt.subplots()[1]
    assert plot_reliability(CURVE, label="GCM", ax=ax) is ax
    empty = CURVE[:1].assign(predicted=np.nan, observed=np.nan, count=0, standard_error=np.nan)
    assert plot_reliability(pd.concat([CURVE, empty]), label="IGCM", ax=ax) is ax
    assert legend(ax) == ["calibrated", "GCM", "IGCM"]
    (diagonal,) = [line for line in ax.lines if line.get_label() == "calibrated"]
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    gcm, igcm = (container[0] for container in ax.containers)
    assert gcm.get_color() != igcm.get_color()
    np.testing.assert_array_equal(gcm.get_xydata(), igcm.get_xydata())
    assert legend(plot_reliability(CURVE)) == ["calibrated"]


# Ranks


def test_bars_count_ranks_and_the_band_is_the_binomial_interval_of_every_bin() -> None:
    for num_draws in (99, 100, 12, 5):
        for n in (1, 5000):
            values = ranks(n, num_draws)
            band, expected = steps(ax := plot_ranks(values, num_draws=num_draws))
            edges = band.edges
            assert (edges[0], edges[-1]) == (-0.5, num_draws + 0.5)
            counts = [int(((values > a) & (values < b)).sum()) for a, b in pairwise(edges)]
            assert heights(ax) == counts
            assert sum(counts) == n
            inside = [
                sum(a < rank < b for rank in range(num_draws + 1)) for a, b in pairwise(edges)
            ]
            assert max(inside) - min(inside) <= 1
            share = np.array(inside) / (num_draws + 1)
            np.testing.assert_array_equal(band.baseline, scipy.stats.binom.ppf(0.005, n, share))
            np.testing.assert_array_equal(band.values, scipy.stats.binom.ppf(0.995, n, share))
            np.testing.assert_allclose(expected.values, n * share)
            plt.close("all")
    for num_draws, bins in ((99, 20), (63, 16), (1023, 16), (9, 10), (19, 20)):
        values = torch.arange(num_draws + 1).repeat(3)
        ax = plot_ranks(values, num_draws=num_draws, label="z[0]")
        assert heights(ax) == [3 * (num_draws + 1) / bins] * bins  # equally many, if possible
        assert ax.get_xlabel() == f"rank of z[0] among {num_draws} posterior draws"


# Curves of a column


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
        assert legend(ax) == ["mean prediction", "band", "rate in these rows"]
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


# Posterior means and draws of z, coloured by the outcome


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
    assert ax.get_xlabel() == "posterior mean of z[2] (no unit)"
    _, faint = points(plot_latent(DRAWS, BINARY, num_draws=5))
    assert [len(offsets(c)) for c in faint] == [5 * 4, 5 * 8]


def test_continuous_outcomes_have_a_colour_bar_and_faint_draws_in_the_colour_of_their_row() -> None:
    names = {"outcome_name": "consumption (mpg)", "latent_name": "u"}
    ax = plot_latent(DRAWS, CONTINUOUS, num_draws=500, **names)
    (shown,), (faint,) = points(ax)
    np.testing.assert_allclose(offsets(shown), DRAWS.mean(0)[:, :2], atol=1e-6)
    np.testing.assert_array_equal(shown.get_array(), CONTINUOUS)
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylabel() == "consumption (mpg)"
    assert ax.get_xlabel() == "posterior mean of u[0] (no unit)"
    every = {
        tuple(draw): y
        for row, y in zip(DRAWS.movedim(1, 0), CONTINUOUS.tolist(), strict=True)
        for draw in row[:, :2].double().tolist()
    }
    colours = zip(map(tuple, offsets(faint).tolist()), faint.get_array(), strict=True)
    assert dict(colours) == every
    assert not points(plot_latent(DRAWS, CONTINUOUS, num_draws=0))[1]
    _, (faint,) = points(plot_latent(torch.zeros(30, 3000, 2), torch.arange(3000.0)))
    assert len(offsets(faint)) <= 20_000


# Predicted survival over Kaplan-Meier estimates


GROUPS = np.where(RATE > 0.1, "high", "low")


def test_curves_are_means_and_estimates_of_their_own_rows():
    ax = plot_survival(**SURVIVAL, groups=GROUPS, time_name="years")
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {
        f"{g}: {k}" for g in ("high", "low") for k in ("predicted", "Kaplan-Meier")
    }
    assert ax.get_xlabel() == "years"
    for group in ("high", "low"):
        rows = group == GROUPS
        predicted = lines[f"{group}: predicted"]
        assert np.allclose(predicted.get_ydata()[1:], SURVIVAL["survival"][rows].mean(0))
        assert predicted.get_xydata()[0].tolist() == [0.0, 1.0]
        found = kaplan_meier(SURVIVAL["y"][rows.tolist()])
        found = found[found["time"] <= 20.0]
        steps = lines[f"{group}: Kaplan-Meier"]
        assert steps.get_xdata()[1:-1].tolist() == found["time"].tolist()
        assert np.allclose(steps.get_ydata()[1:-1], found["survival"])
        assert predicted.get_color() == steps.get_color()


def test_rows_at_risk_are_counted_at_the_ticks():
    ax = plot_survival(**SURVIVAL)
    ticks = [tick for tick in ax.get_xticks() if 0.0 <= tick <= 20.0]
    counts = [text.get_text() for text in ax.texts]
    assert counts == ["at risk", *(str((tick <= TIME).sum()) for tick in ticks)]
    assert not plot_survival(**SURVIVAL, at_risk=False).texts


# Losses by epoch, and bounds by number of particles


def bars(ax: Axes) -> Any:
    """Lower and upper ends of error bars, in order of x, [points, 2]."""
    _, _, (segments,) = ax.containers[0]
    return np.array([segment[:, 1] for segment in segments.get_segments() if len(segment)])


def fitted(**options: Any) -> FitResult:
    return fit(GCM(3, 2), X, R, (R[:, 0] > 60).float(), epochs=6, progress=False, **options)


def test_losses_of_a_result_and_its_best_epoch() -> None:
    result = fitted(validation=0.2, learning_rate=0.02)
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
