"""The survival tables: scores of curves, and verdicts."""

import math

import numpy as np
import pytest

from reproduce.curves.survival_scores import UNIFORM, calibration_error, log_score


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
