"""Strict against implicit on a real data set, at a size that takes seconds; its scores."""

import argparse
import os

import numpy as np
import pandas as pd
import pytest
import torch

from reproduce import implicit
from reproduce.scores import (
    binary_scores,
    continuous_scores,
    expected_calibration_error,
    pit_calibration_error,
)

METHODS = [*implicit.METHODS, implicit.BOOSTING]


def test_calibration_error_is_the_mean_gap_between_prediction_and_frequency():
    p = np.repeat([0.2, 0.6], 500)
    y = np.concatenate([np.arange(500) < 150, np.arange(500) < 300]).astype(float)
    order = np.random.default_rng(0).permutation(1000)
    assert expected_calibration_error(p[order], y[order], bins=2) == pytest.approx(0.05)


def test_calibrated_probabilities_have_almost_no_error():
    rng = np.random.default_rng(0)
    p = rng.random(100_000)
    y = (rng.random(100_000) < p).astype(float)
    assert expected_calibration_error(p, y) < 0.005
    assert expected_calibration_error(p**2, y) > 0.1


def test_uniform_integral_transforms_have_almost_no_error():
    u = np.random.default_rng(0).random(100_000)
    assert pit_calibration_error(u) < 0.005
    assert pit_calibration_error(np.full(100, 0.5)) == pytest.approx(
        np.mean([min(level, 1 - level) for level in np.linspace(0.05, 0.95, 19)]), abs=0.03
    )


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


@pytest.mark.skipif(not os.environ.get("PYRO_GCM_DATA"), reason="PYRO_GCM_DATA is not set")
def test_every_method_is_scored_on_the_same_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(implicit.SETTINGS["auto_mpg"], "model", {"num_samples": 16})
    parser = argparse.ArgumentParser()
    implicit.add_arguments(parser)
    options = ["--dataset", "auto_mpg", "--splits", "2", "--epochs", "2", "--jobs", "1"]
    implicit.main(parser.parse_args([*options, "--output", str(tmp_path)]))
    table = pd.read_csv(tmp_path / "implicit_auto_mpg.csv")
    counts = table.groupby(["method", "metric"])["seed"].apply(list)
    assert set(counts.index) == {
        (method, metric)
        for method in METHODS
        for metric in ("RMSE", "log score", "calibration error")
    }
    assert all(seeds == [0, 1] for seeds in counts)
    assert table["value"].notna().all()
    printed = capsys.readouterr().out
    assert "differences to GCM" in printed
    assert "IGCM, paper" in printed


def test_binary_methods_are_scored_too():
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(400, 2, generator=g).double(), torch.rand(400, 2, generator=g).double()
    y = (x[:, 0] + 2.0 * r.sum(1) > 2.0).double()
    data = argparse.Namespace(x=x, r=r, y=y, x_dim=2, r_dim=2, response="binary")
    train, test = torch.arange(300), torch.arange(300, 400)
    options = {"model": {}, "fit": {"epochs": 3, "num_particles": 4}}
    for method in METHODS:
        if method == implicit.BOOSTING:
            scores = implicit.boosting_scores(data, train, test, 0)
        else:
            scores = implicit.model_scores(data, train, test, 0, method, options)
        assert list(scores) == ["AUC", "accuracy", "log score", "calibration error"]
        assert scores["AUC"] > 0.6
