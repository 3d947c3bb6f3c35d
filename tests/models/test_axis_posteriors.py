"""Responses along an axis: posteriors, their calibration and exports."""

from __future__ import annotations

import pytest
from axis_toys import CASES, kind_of, model_of, rows

from pyro_gcm import to_arviz

cases = pytest.mark.parametrize("case", CASES)


@pytest.mark.filterwarnings("ignore:.*effective sample size")
@pytest.mark.long(keep=3)
@cases
def test_posterior_draws_agree_with_what_was_seen(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 8, seed=9)
    draws = model.posterior(x, r, y, num_samples=60, num_proposals=500, progress=False)
    assert draws["c"].shape == (60, 8, *model.cost_shape)
    if kind_of(case) != "survival":
        return
    lower, upper, _ = y.columns().T
    time = draws["t"]
    close = 1.0 + 1e-9
    assert ((time * close >= lower) & (time <= upper * close)).all()
    censored = y.upper.isinf()
    assert (
        (time[1:, censored] != time[0, censored]).any(0).all()
    )  # the unseen times differ between draws


@pytest.mark.parametrize("case", ["survival, members", "ordinal", "distribution"])
def test_arviz_has_every_site(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 6)
    data = to_arviz(model, x, r, y, num_samples=20, num_proposals=100, progress=False)
    observed = set(data["observed_data"].data_vars)
    assert observed == ({"lower", "upper", "entry"} if kind_of(case) == "survival" else {"y"})
    assert data["posterior_predictive"]["y"].shape == (1, 20, 6)
    assert ("t" in data["posterior"]) == (kind_of(case) == "survival")
