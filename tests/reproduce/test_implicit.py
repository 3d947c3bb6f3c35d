"""Strict against implicit on a real data set, at a size that takes seconds; its scores."""

import numpy as np
import pytest
import torch
from toys import table, toy

from reproduce import implicit, tasks
from reproduce.runs import Fit
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


def test_the_density_of_boosting_has_the_spread_of_rows_it_did_not_see(monkeypatch):
    dataset = toy(x_dim=2, r_dim=2, rows=300)
    monkeypatch.setattr(tasks, "load", lambda name, variant: dataset)
    fit = Fit("implicit", "auto_mpg", "default", "held-out", "0", 0, "monotone boosting", "{}")
    scores = implicit.run(fit)
    learn, test = dataset.split(0)
    rows = implicit.rows_of(dataset, learn)
    model, _ = implicit.train("monotone boosting", rows, {}, 0)
    seen = (model.predict(rows.x, rows.r) - rows.y).square().mean().sqrt()
    spread = implicit.out_of_fold_spread(model, rows)
    assert spread > 1.2 * seen
    density = torch.distributions.Normal(model.predict(dataset.x[test], dataset.r[test]), spread)
    expected = density.log_prob(dataset.y[test]).mean()
    assert scores["log score"] == pytest.approx(float(expected), rel=1e-6)


def test_the_report_has_paired_differences_to_gcm_with_the_corrected_interval():
    values = {"GCM": (0.80, 0.80, 0.80, 0.80), "IGCM": (0.81, 0.83, 0.79, 0.84)}
    metrics = ("AUC", "log score", "calibration error")
    rows = table({(method, m): each for method, each in values.items() for m in metrics})
    lines = implicit.report(rows).splitlines()
    assert lines[2] == "| GCM | 0.8000 |  | 0.8000 |  | 0.8000 |"
    # Mean 0.0175; squared deviations sum to 0.001475; 1/4 + 1/4 in place of 1/4.
    half = 3.182446 * (0.001475 / 3 / 2) ** 0.5
    gap = f"0.0175 ± {half:.4f}"
    assert lines[3] == f"| IGCM | 0.8175 | {gap} | 0.8175 | {gap} | 0.8175 |"
