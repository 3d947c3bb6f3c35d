"""Scores of predictions, densities and curves; their means, intervals and rankings."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from toys import table

from reproduce.curves.survival import UNIFORM, calibration_error, log_score
from reproduce.intervals import mean_interval, paired_interval, to_the_best
from reproduce.rendering import tables
from reproduce.rendering.markdown import shown
from reproduce.scores import (
    binary_scores,
    continuous_scores,
    expected_calibration_error,
    pit_calibration_error,
)


def test_calibration_error_is_the_mean_gap_between_prediction_and_frequency():
    p = np.repeat([0.2, 0.6], 500)
    y = np.concatenate([np.arange(500) < 150, np.arange(500) < 300]).astype(float)
    order = np.random.default_rng(0).permutation(1000)
    assert expected_calibration_error(p[order], y[order], bins=2) == pytest.approx(0.05)
    p, u = np.random.default_rng(0).random((2, 100_000))
    y = (u < p).astype(float)
    assert expected_calibration_error(p, y) < 0.005
    assert expected_calibration_error(p**2, y) > 0.1
    assert pit_calibration_error(u) < 0.005  # of uniform probability integral transforms
    apart = np.mean([min(level, 1 - level) for level in np.linspace(0.05, 0.95, 19)])
    assert pit_calibration_error(np.full(100, 0.5)) == pytest.approx(apart, abs=0.03)


def test_scores_are_those_of_their_names():
    y = np.array([0.0, 1.0, 1.0, 0.0])
    p = np.array([0.1, 0.8, 0.4, 0.3])
    scores = binary_scores(p, y)
    assert scores["AUC"] == 1.0
    assert scores["accuracy"] == 0.75
    assert scores["log score"] == pytest.approx(np.log([0.9, 0.8, 0.4, 0.7]).mean())
    scores = continuous_scores(p, np.log(p), p, y)
    assert scores["RMSE"] == pytest.approx(np.sqrt(np.mean((p - y) ** 2)))
    assert scores["log score"] == pytest.approx(np.log(p).mean())


# Of survival curves


def test_the_log_score_is_that_of_bins_and_of_all_later_ones():
    test = np.array(
        [(True, 2.0), (False, 2.5), (True, 9.0)], dtype=[("event", "?"), ("time", "f8")]
    )
    at_edges = np.array([[0.8, 0.5], [0.9, 0.6], [0.7, 0.1]])
    each = UNIFORM / 3

    def mixed(p, bins=1):
        return (1.0 - UNIFORM) * p + bins * each

    expected = np.mean([math.log(mixed(p, b)) for p, b in [(0.2, 1), (0.9, 2), (0.1, 1)]])
    assert log_score(test, at_edges, np.array([2.0, 4.0])) == pytest.approx(expected)


def test_the_calibration_error_is_that_of_groups_of_equal_predictions():
    pytest.importorskip("sksurv", reason="Kaplan-Meier estimates of groups are scikit-survival's")
    rng = np.random.default_rng(0)
    high = np.arange(4000) % 2 == 0
    time = rng.exponential(np.where(high, 1.0, 3.0))
    test = np.array(list(zip(time < 2.5, np.minimum(time, 2.5), strict=True)), dtype="?,f8")
    test.dtype.names = "event", "time"
    right = np.exp(-1.0 / np.where(high, 1.0, 3.0))
    assert calibration_error(test, right, 1.0) < 0.03
    assert calibration_error(test, right + 0.1, 1.0) == pytest.approx(0.1, abs=0.02)
    # Right on average, and wrong in every group.
    assert calibration_error(test, right[::-1], 1.0) == pytest.approx(0.35, abs=0.02)


# Means and intervals


FIRST = pd.Series([0.81, 0.83, 0.80, 0.86])
SECOND = pd.Series([0.80, 0.80, 0.81, 0.82])


def test_paired_interval_is_that_of_the_differences():
    # Differences 0.01, 0.03, -0.01, 0.04: mean 0.0175, squared deviations sum to 0.001475.
    interval = paired_interval(FIRST, SECOND)
    assert interval.mean == pytest.approx(0.0175)
    assert interval.half == pytest.approx(3.182446 * math.sqrt(0.001475 / 3 / 4), rel=1e-6)
    expected = stats.ttest_rel(FIRST, SECOND).confidence_interval(0.95)
    ends = (interval.mean - interval.half, interval.mean + interval.half)
    assert ends == pytest.approx((expected.low, expected.high))
    shuffled = SECOND.iloc[[2, 0, 3]]  # pairs are of equal splits, in any order
    assert paired_interval(FIRST, shuffled) == paired_interval(FIRST[[0, 2, 3]], SECOND[[0, 2, 3]])


def test_interval_of_random_splits_has_the_variance_of_nadeau_and_bengio():
    plain, corrected = (paired_interval(FIRST, SECOND, ratio) for ratio in (0.0, 0.25))
    assert corrected.mean == plain.mean
    # n = 4: (1/4 + 1/4) in place of 1/4.
    assert corrected.half / plain.half == pytest.approx(math.sqrt(2.0))
    assert mean_interval(FIRST, 0.25).half / mean_interval(FIRST).half == pytest.approx(2**0.5)
    _, behind = to_the_best({"GCM": FIRST, "MM": SECOND}, False, 0.25)
    assert behind == {"MM": corrected}
    assert not corrected.excludes(0.0)


def test_asterisks_are_where_the_corrected_interval_excludes_zero():
    behind = {"near": [0.6, -0.4, 0.6, -0.4], "far": [0.9, 1.1, 0.9, 1.1], "GCM": [0.0] * 4}
    rows = table({(name, "log score"): [-gap for gap in gaps] for name, gaps in behind.items()})
    lines = tables.ranked_scores(rows, "log score").splitlines()
    assert [line[2:].split()[0] for line in lines if re.search(r"\d\* \|$", line)] == ["far"]


def test_diverged_fits_are_counted_and_shown():
    interval = mean_interval(pd.Series([0.5, math.nan, 0.7, math.nan]))
    assert (interval.mean, interval.count, interval.diverged) == (0.6, 2, 2)
    assert shown(interval, 4).endswith("(n = 2, 2 diverged)")
    assert shown(mean_interval(pd.Series([math.nan])), 1) == "– (n = 0, 1 diverged)"
    one = mean_interval(FIRST[:1])  # which has no interval and excludes nothing
    assert math.isnan(one.half)
    assert not one.excludes(0.0)


def test_a_method_that_lacks_an_easy_split_is_not_put_last():
    values = {"GCM": [0.6, 0.7, 0.9], "MM": [0.5, 0.6], "PWL": [0.65]}
    scores, behind = to_the_best({m: pd.Series(each) for m, each in values.items()}, False)
    assert {m: score.mean for m, score in scores.items()} == {"GCM": 0.6, "MM": 0.5, "PWL": 0.65}
    assert {*behind} == {"GCM", "MM"}
