"""Event times: what is refused, late entry, cured rows, timestamps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import zoo

from pyro_gcm import GCM, fit
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.responses import Survival


@pytest.mark.parametrize(
    ("lower", "upper", "entry", "error"),
    [
        ([-1.0], [2.0], None, "at least 0"),
        ([3.0], [2.0], None, "lower up to upper"),
        ([1.0, 3.0], [2.0, 3.0000000000000004], None, "wider than 1e-12 of the time.*in row 1"),
        ([0.0], [0.0], None, "exact times above 0"),
        ([math.inf], [math.inf], None, "finite lower"),
        ([1.0], [2.0], [1.5], "entry up to lower"),
        ([math.nan], [2.0], None, "no NaN"),
        ([1.0, 2.0], [2.0], None, "row counts differ"),
    ],
)
def test_impossible_times_are_refused(lower: Any, upper: Any, entry: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        SurvivalTimes(lower, upper, entry)


def test_times_of_a_tensor_are_checked_and_a_row_that_says_nothing_counts_for_nothing() -> None:
    x, r, y = zoo.rows_of("survival", 40)
    model = zoo.with_units("survival")
    with pytest.raises(ValueError, match=r"shape \[rows, 3\]"):
        fit(model, x, r, torch.rand(40))
    nothing = SurvivalTimes(torch.zeros(40), torch.full((40,), math.inf))
    assert model.log_prob(x, r, nothing).abs().max() < 1e-12
    again = SurvivalTimes(y.lower, y.upper)[torch.arange(40)]
    assert torch.equal(model.log_prob(x, r, y.columns()), model.log_prob(x, r, again))


def test_late_entrants_are_given_that_they_entered() -> None:
    x, r, y = zoo.rows_of("survival", 60)
    lower, upper, _ = y.columns().T
    late = SurvivalTimes(lower, upper, 0.5 * lower)
    for case in ("survival", "survival, members", "survival, cured"):
        model = zoo.with_units(case)
        entered = SurvivalTimes(0.5 * lower + 1e-300, torch.full((60,), math.inf).double())
        want = model.log_prob(x, r, y) - model.log_prob(x, r, entered)
        torch.testing.assert_close(model.log_prob(x, r, late), want, rtol=1e-9, atol=1e-9)
        fit(model, x, r, late, epochs=1, progress=False)
    with pytest.raises(ValueError, match="entries above 0"):
        fit(zoo.with_units("survival, guided"), x, r, late)


def test_rows_that_were_drawn_as_cured_leave_the_units_as_they_are() -> None:
    x, r, _ = zoo.rows_of("survival, cured", 100)
    model = zoo.with_units("survival, cured")
    y = model.simulate(x=x, r=r, seed=1)["y"]
    assert y[:, 1].isinf().any()
    again = zoo.with_units("survival, cured")
    again.learn_units(x, r, y)
    assert 0.1 < float(again.response.standardizer.scale) < 30.0  # without them, 12
    assert again.predictive(x, r).survival([1.0]).isfinite().all()


def test_timestamps_keep_their_digits() -> None:
    x, r, y = zoo.rows_of("survival", 200)
    stamps = SurvivalTimes(1.7e9 + 100.0 * y.lower, 1.7e9 + 100.0 * y.upper)
    model = GCM(3, 2, response="survival", hidden=4)
    fit(model, x.float(), r.float(), stamps, epochs=2, progress=False)
    draws = model.posterior(x[:8], r[:8], stamps[:8], num_samples=5, progress=False)
    exact = stamps.is_exact[:8]
    seen = stamps.lower[:8][exact].expand(5, -1)
    torch.testing.assert_close(draws["t"][:, exact], seen, rtol=1e-9, atol=0.0)
    assert model.predictive(x[:8], r[:8]).median().dtype == torch.float64
    nothing = torch.tensor([[0.0, math.inf, 0.0]])
    with torch.no_grad():
        zero = torch.zeros(1, 4)
        p_y = model.y_dist(model.c_dist(zero, zero[:, :3]), zero[:, :3], zero[:, :2])
        assert float(p_y.log_prob(nothing)) == pytest.approx(0.0, abs=1e-6)


def test_the_cured_fraction_starts_at_kaplan_and_meiers_estimate() -> None:
    lower = torch.tensor([4.0, 9.0, 1.0, 7.0, 3.0, 2.0, 8.0, 6.0, 10.0, 5.0])
    upper = torch.where(lower < 5.0, lower, torch.inf)  # the first four of ten
    y = torch.stack([lower, upper, torch.zeros(10)], -1)
    assert Survival().initial_cured_fraction(y) == pytest.approx(0.6)
