"""Reliability curves, rank histograms, and predicted survival over Kaplan-Meier estimates."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.stats
import torch
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch
from plot_toys import CURVE, RATE, SURVIVAL, TIME, legend

from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.plots import plot_ranks, plot_reliability, plot_survival


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


def test_bins_contain_equally_many_ranks_if_possible() -> None:
    for num_draws, bins in ((99, 20), (63, 16), (1023, 16), (9, 10), (19, 20)):
        values = torch.arange(num_draws + 1).repeat(3)
        ax = plot_ranks(values, num_draws=num_draws, label="z[0]")
        assert heights(ax) == [3 * (num_draws + 1) / bins] * bins
        assert ax.get_xlabel() == f"rank of z[0] among {num_draws} posterior draws"
        assert ax.get_ylabel() == "number of simulations"
        assert legend(ax) == ["99% of uniform ranks"]
    unnamed = plot_ranks(values, num_draws=19)
    assert unnamed.get_xlabel() == "rank of the true value among 19 posterior draws"


def test_bars_count_ranks_and_the_band_is_the_binomial_interval_of_every_bin() -> None:
    for num_draws, bins in ((99, None), (100, None), (100, 7), (99, 20), (12, 13), (5, 1)):
        for n in (1, 5000):
            values = ranks(n, num_draws)
            band, expected = steps(ax := plot_ranks(values, num_draws=num_draws, bins=bins))
            edges = band.edges
            assert (edges[0], edges[-1]) == (-0.5, num_draws + 0.5)
            assert bins is None or len(edges) == bins + 1
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
