"""Quantile regression on simulated data, at a size that takes seconds."""

import math

import pandas as pd
import pytest
import torch

from reproduce import quantile
from reproduce.data import simulation
from reproduce.methods import Rows, train
from reproduce.runs import Fit, as_json

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
SMALL = {"optimizer": "adam", "learning_rate": 0.01, "hidden": 8, "steps": 20}


def fit(method="MLP", seed=0, **more):
    settings = as_json({**SMALL, **more})
    return Fit("quantile", "simulation", "default", "tuned", "", seed, method, settings)


def test_simulated_quantile_curve_is_the_quantile_of_the_simulated_data():
    x, drawn, y = simulation.sample(200_000, seed=1)
    assert 0 < drawn.min() < drawn.max() < 1
    assert simulation.LEVELS == LEVELS
    for level in simulation.LEVELS:
        below = (y < simulation.quantile(x[:, 0], level)).double().mean()
        assert below.item() == pytest.approx(level, abs=0.005)


def test_simulated_median_and_spread_are_those_of_the_paper():
    # Worked out by hand from equation (qt_example) at x = 0.
    x = torch.tensor([0.0])
    assert simulation.spread(x).item() == pytest.approx(0.2 * 0.6)
    at_zero = 0.3 * math.sin(1.6) + 0.4 * math.sin(-3.9)
    assert simulation.median(x).item() == pytest.approx(at_zero, rel=1e-5)


def test_the_errors_are_the_mean_distances_to_the_true_quantiles():
    asked = fit(seed=3)
    scores = quantile.run([asked])[0]
    x, level, y = simulation.sample(20 * SMALL["steps"], 3)
    settings = {k: v for k, v in SMALL.items() if k != "steps"} | {"epochs": 1, "batch_size": 20}
    model, _ = train("MLP", Rows(x, level, y, "quantile"), settings, 3)
    x = simulation.covariate(1000, torch.Generator().manual_seed(1003))
    assert {*scores} == {*(f"MAE r={level}" for level in LEVELS), "seconds", "epochs"}
    for level in LEVELS:
        predicted = model.predict(x[:, None], torch.full((1000, 1), level))
        expected = (predicted - simulation.quantile(x, level)).abs().mean()
        assert scores[f"MAE r={level}"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("method", ["SMM", "PWL"])
def test_a_seed_has_the_errors_that_it_has_alone(method, tmp_path):
    seeds = (2, 0)  # the figure's is not the first
    group = [fit(method=method, seed=seed) for seed in seeds]
    found = quantile.run(group, curves=tmp_path)
    for each, scores in zip(group, found, strict=True):
        (alone,) = quantile.run([each], curves=tmp_path / "alone" if each.seed == 0 else None)
        assert scores == pytest.approx(alone | {"seconds": scores["seconds"]}, rel=1e-4)
    assert len({scores["MAE r=0.5"] for scores in found}) == 2
    assert len({scores["seconds"] for scores in found}) == 1
    one, other = (pd.read_csv(path / f"{method}.csv") for path in (tmp_path, tmp_path / "alone"))
    pd.testing.assert_frame_equal(one, other, rtol=1e-4)
