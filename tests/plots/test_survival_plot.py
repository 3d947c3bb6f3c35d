"""Predicted survival over Kaplan-Meier estimates."""

import numpy as np
from plot_toys import RATE, SURVIVAL, TIME

from pyro_gcm.diagnostics import kaplan_meier
from pyro_gcm.plots import plot_survival

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
