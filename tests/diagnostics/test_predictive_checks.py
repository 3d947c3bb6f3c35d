"""Reliability, replicated data, Kaplan and Meier's estimate, and joint coverage of draws."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.calibration import calibration_curve
from torch import Tensor

from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.diagnostics import joint_coverage, kaplan_meier, predictive_check, reliability_curve

RNG = np.random.default_rng(0)
P = RNG.beta(0.7, 0.7, 2000)
Y = (RNG.random(2000) < P).astype(float)


def test_curve_is_that_of_scikit_learn() -> None:
    p = P.round(2)  # with ties at the edges of bins
    for bins in (1, 7, 10):
        curve = reliability_curve(p, Y, bins)
        observed, predicted = calibration_curve(Y, p, n_bins=bins, strategy="quantile")
        np.testing.assert_allclose(curve["observed"], observed, rtol=1e-12)
        np.testing.assert_allclose(curve["predicted"], predicted, rtol=1e-12)
        assert curve["count"].sum() == 2000


def test_standard_error_is_that_of_calibrated_probabilities() -> None:
    curve = reliability_curve(P, Y)
    again = np.stack(
        [reliability_curve(P, (RNG.random(2000) < P) * 1.0)["observed"] for _ in range(150)]
    )
    np.testing.assert_allclose(again.std(0), curve["standard_error"], rtol=0.2)
    z = (curve["observed"] - curve["predicted"]) / curve["standard_error"]
    assert z.abs().max() < 3.5
    wrong = reliability_curve(P**2, Y)
    z = (wrong["observed"] - wrong["predicted"]) / wrong["standard_error"]
    assert z.abs().max() > 10.0


def test_certain_predictions_have_no_error() -> None:
    curve = reliability_curve(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0, 0, 1]), bins=4)
    assert curve["standard_error"].tolist() == [0.0, 0.0]
    assert curve["count"].tolist() == [2, 1]  # equal probabilities stay together


def test_check_counts_the_replications_on_either_side() -> None:
    replicated = torch.arange(10.0)[:, None].expand(10, 4)  # means 0, 1, ..., 9
    for mean, tail in ((-1.0, 0.0), (0.0, 0.2), (2.0, 0.6), (2.5, 0.6), (4.5, 1.0), (9.5, 0.0)):
        table = predictive_check(replicated, torch.full((4,), mean))
        assert table.loc["all", "tail_probability"] == pytest.approx(tail)
        assert table.loc["all", "observed"] == mean
        assert table.loc["all", "50%"] == 4.5
        assert table.loc["all", "2.5%"] == pytest.approx(0.225)
    same = predictive_check(torch.ones(10, 4), torch.ones(4))
    assert same.loc["all", "tail_probability"] == 1.0  # all ties


def test_statistics_are_those_of_numpy_or_a_function() -> None:
    y, replicated = RNG.normal(size=31), RNG.normal(size=(50, 31))
    statistics: dict[Any, Any] = {
        name: getattr(np, name) for name in ("mean", "std", "min", "median", "max")
    }
    statistics[lambda v: (v > 0.5).double().mean(-1)] = lambda v, axis=-1: (v > 0.5).mean(axis)
    for statistic, reference in statistics.items():
        row = predictive_check(replicated, y, statistic, quantiles=(0.1, 0.9)).loc["all"]
        values = reference(replicated, axis=1)
        assert row["observed"] == pytest.approx(reference(y)), statistic
        assert [row["10%"], row["90%"]] == pytest.approx(np.quantile(values, [0.1, 0.9]).tolist())


def test_groups_show_what_the_mean_hides() -> None:
    """Replications that ignore x have the right mean, and the wrong one in every half of x."""
    x = RNG.normal(size=400)
    y = x + RNG.normal(size=400)
    replicated = y.mean() + y.std() * RNG.normal(size=(500, 400))
    assert predictive_check(replicated, y).loc["all", "tail_probability"] > 0.5
    table = predictive_check(replicated, y, groups=x > 0)
    assert table.index.tolist() == [False, True]
    assert (table["tail_probability"] == 0.0).all()
    assert table["observed"].to_numpy() == pytest.approx([y[x <= 0].mean(), y[x > 0].mean()])
    right = predictive_check(x + RNG.normal(size=(500, 400)), y, groups=x > 0)
    assert (right["tail_probability"] > 0.01).all()


def test_groups_come_in_the_order_of_their_labels() -> None:
    labels = ["low", "high", "low", "high"]
    cases: list[tuple[Any, dict[str, float]]] = [
        (torch.tensor([2, 0, 2, 0]), {"0": 30.0, "2": 20.0}),
        (pd.Series(labels, index=[7, 5, 3, 1]), {"high": 30.0, "low": 20.0}),
        (pd.Categorical(labels, ["low", "mid", "high"]), {"low": 20.0, "high": 30.0}),
    ]
    for groups, observed in cases:
        table = predictive_check(torch.zeros(3, 4), [10.0, 20.0, 30.0, 40.0], groups=groups)
        found = zip(map(str, table.index), table["observed"], strict=True)
        assert [*found] == [*observed.items()]
        assert table["count"].tolist() == [2, 2]


# Kaplan and Meier's estimate, also for late entrants


def test_the_estimate_is_the_product_over_events():
    rng = np.random.default_rng(0)
    time, event = rng.integers(1, 15, 80).astype(float), rng.random(80) < 0.6
    entry = np.where(rng.random(80) < 0.3, time - 1.0, 0.0)
    found = kaplan_meier(SurvivalTimes.right_censored(time, event, entry), 0.9)
    survival, greenwood = 1.0, 0.0
    for row in found.itertuples():
        at_risk = sum((entry < row.time) & (time >= row.time))
        events = sum(event & (time == row.time))
        assert (row.at_risk, row.events) == (at_risk, events)
        survival *= 1.0 - events / at_risk
        assert row.survival == pytest.approx(survival)
        if at_risk > events:
            greenwood += events / (at_risk * (at_risk - events))
            width = 1.6448536269514722 * math.sqrt(greenwood) / math.log(survival)
            assert row.lower == pytest.approx(survival ** math.exp(-width))
            assert row.upper == pytest.approx(survival ** math.exp(width))
    assert list(found["time"]) == sorted(set(time[event]))


ZEROS, NONE = torch.zeros(5, 4), torch.zeros(4)
CENSORED = SurvivalTimes.right_censored([1.0], [False])
WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (reliability_curve, ([0.5, 1.1], [0, 1]), r"probability must lie in \[0, 1\], got 0.5 to 1.1"),
    (reliability_curve, ([0.5, 0.5], [2, 1]), "y must be 0 or 1, got"),
    (reliability_curve, ([0.5, 0.5], [1]), "row counts differ: probability has 2, y has 1"),
    (reliability_curve, ([0.5], [1], 0), "bins must be an integer of at least 1, got 0"),
    (reliability_curve, ([np.nan], [1]), "probability must be finite"),
    (predictive_check, (ZEROS * np.nan, NONE), "replicated must be finite"),
    (predictive_check, (ZEROS, NONE, "mode"), "statistic must be one of"),
    (predictive_check, (ZEROS, NONE, "mean", [1, 2, None, 1]), "a label for each row"),
    (partial(predictive_check, quantiles=[2.5]), (ZEROS, NONE), "range"),
    (kaplan_meier, (SurvivalTimes([1.0, 2.0], [2.0, 2.0]),), "exact and right-censored"),
    (kaplan_meier, (CENSORED,), "at least one exact"),
    (joint_coverage, (np.zeros((30, 2)), np.zeros((9, 30, 3))), r"\(30, 2\) and \(9, 30, 3\)"),
    (joint_coverage, (np.zeros((5, 2)), np.zeros((9, 5, 2))), "at least 20 simulations, got 5"),
    (joint_coverage, (np.zeros((30, 1)), np.full((9, 30, 1), np.nan)), "must be finite"),
]


def test_what_cannot_be_checked_is_refused() -> None:
    for function, arguments, message in WRONG:
        with pytest.raises((TypeError, ValueError), match=message):
            function(*arguments)


COUNT, DRAWS = 4000, 99
CORRELATED = torch.tensor([[1.0, 0.0], [0.95, 0.3122]])


def gaussian(seed: int) -> tuple[Tensor, Tensor]:
    """Truths and exact draws given data that say where both lie, but for correlated errors."""
    g = torch.Generator().manual_seed(seed)
    centre = torch.randn(COUNT, 2, generator=g)
    truth, draws = (torch.randn(*s, COUNT, 2, generator=g) for s in ((), (DRAWS,)))
    return centre + truth @ CORRELATED.T, centre + draws @ CORRELATED.T


def test_exact_draws_have_uniform_shares() -> None:
    p_values = [joint_coverage(*gaussian(seed), seed=seed).p_value for seed in range(20)]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    found = joint_coverage(*gaussian(0))
    level = np.linspace(0.05, 0.95, 19)
    gap = np.abs((found.shares[:, None] < level).mean(0) - level)
    assert (gap < 4.0 * np.sqrt(level * (1.0 - level) / COUNT)).all()
    assert (joint_coverage(*gaussian(0)).shares == found.shares).all()


def test_wrong_draws_fail() -> None:
    for wrong in ("narrow", "wide", "biased", "independent"):
        truth, draws = gaussian(1)
        centre = draws.mean(0)
        g = torch.Generator().manual_seed(2)
        made = {
            "narrow": centre + 0.6 * (draws - centre),
            "wide": centre + 1.6 * (draws - centre),
            "biased": draws + 0.7,
            # Each coordinate is right by itself: ranks of one at a time cannot tell.
            "independent": centre + torch.randn(draws.shape, generator=g),
        }[wrong]
        assert joint_coverage(truth, made).p_value < 1e-4
        ranks = (made[..., 1] < truth[:, 1]).float().mean(0)
        assert (stats.kstest(ranks, "uniform").pvalue > 1e-3) == (wrong == "independent")
