"""Kaplan and Meier's estimate against its definition, and late entrants."""

import math

import numpy as np
import pytest

from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.diagnostics import kaplan_meier


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


def test_other_times_are_refused():
    with pytest.raises(ValueError, match="exact and right-censored"):
        kaplan_meier(SurvivalTimes([1.0, 2.0], [2.0, 2.0]))
    with pytest.raises(ValueError, match="at least one exact"):
        kaplan_meier(SurvivalTimes.right_censored([1.0], [False]))
    with pytest.raises(TypeError, match=r"y must be data\.SurvivalTimes, got"):
        kaplan_meier([1.0])
