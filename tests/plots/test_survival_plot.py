"""Predicted survival over Kaplan-Meier estimates."""

import numpy as np
import pytest

from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.plots import plot_survival

RNG = np.random.default_rng(3)
TIME, EVENT = RNG.exponential(10.0, 60), RNG.random(60) < 0.7
Y = SurvivalTimes.right_censored(TIME, EVENT)
AT = np.linspace(1.0, 20.0, 12)
RATE = RNG.uniform(0.05, 0.15, 60)
SURVIVAL = np.exp(-RATE[:, None] * AT)
GROUPS = np.where(RATE > 0.1, "high", "low")


def test_curves_are_means_and_estimates_of_their_own_rows():
    ax = plot_survival(AT, SURVIVAL, Y, groups=GROUPS, time_name="years")
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {
        f"{g}: {k}" for g in ("high", "low") for k in ("predicted", "Kaplan-Meier")
    }
    assert ax.get_xlabel() == "years"
    for group in ("high", "low"):
        rows = group == GROUPS
        predicted = lines[f"{group}: predicted"]
        assert np.allclose(predicted.get_ydata()[1:], SURVIVAL[rows].mean(0))
        assert predicted.get_xydata()[0].tolist() == [0.0, 1.0]
        found = kaplan_meier(Y[rows.tolist()])
        found = found[found["time"] <= 20.0]
        steps = lines[f"{group}: Kaplan-Meier"]
        assert steps.get_xdata()[1:-1].tolist() == found["time"].tolist()
        assert np.allclose(steps.get_ydata()[1:-1], found["survival"])
        assert predicted.get_color() == steps.get_color()


def test_rows_at_risk_are_counted_at_the_ticks():
    ax = plot_survival(AT, SURVIVAL, Y)
    ticks = [tick for tick in ax.get_xticks() if 0.0 <= tick <= 20.0]
    counts = [text.get_text() for text in ax.texts]
    assert counts == ["at risk", *(str((tick <= TIME).sum()) for tick in ticks)]
    assert not plot_survival(AT, SURVIVAL, Y, at_risk=False).texts


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match=r"y must be data\.SurvivalTimes"):
        plot_survival(AT, SURVIVAL, TIME)
    with pytest.raises(ValueError, match=r"shape \(60, 12\), got \(12, 60\)"):
        plot_survival(AT, SURVIVAL.T, Y)
    with pytest.raises(ValueError, match="times must be above 0 and rise"):
        plot_survival(AT[::-1], SURVIVAL, Y)
    with pytest.raises(ValueError, match=r"survival must be in \[0, 1\]"):
        plot_survival(AT, 2.0 * SURVIVAL, Y)
    with pytest.raises(ValueError, match="groups must be at most 7, got 60"):
        plot_survival(AT, SURVIVAL, Y, groups=range(60))
    with pytest.raises(ValueError, match="a label for each of the 60 rows"):
        plot_survival(AT, SURVIVAL, Y, groups=["a"])
