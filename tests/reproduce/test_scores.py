"""Scores of predictions and of densities."""

import numpy as np
import pytest

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
