"""The nine known posteriors: the index is right, and so are the draws of the library."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from reproduce.posteriors import references, study
from reproduce.posteriors.models import model_of, rows_of
from reproduce.posteriors.references import PROBLEMS
from reproduce.runs import COLUMNS, Fit

STORED = references.stored()


@pytest.mark.parametrize("name", ["one_cost", "far_tails"])
def test_stored_moments_are_those_of_a_truncated_normal(name):
    """z and c are normal together, and y says on which side of r a normal c is."""
    p = PROBLEMS[name]
    slope, width = p["c_slope"][0], p["c_scale"][0]
    spread = np.hypot(slope, width)
    for row, found in enumerate(STORED[name]):
        z_mean = p["z_loc"][0] + p["z_slope"][0] * p.x[row][0]
        c_mean, at = p["c_loc"][0] + slope * z_mean, p.r[row][0]
        ends = (-np.inf, at) if p.y[row] else (at, np.inf)
        low, high = ((end - c_mean) / spread for end in ends)
        c = stats.truncnorm(low, high, c_mean, spread)
        by_c = slope / spread**2  # regression of z on c
        wanted = {
            "c[0]": (c.mean(), c.std()),
            "z[0]": (
                z_mean + by_c * (c.mean() - c_mean),
                np.sqrt(1.0 - by_c * slope + by_c**2 * c.var()),
            ),
        }
        for quantity, (mean, sd) in wanted.items():
            assert found.mean[quantity] == pytest.approx(mean, abs=1e-5 * sd)
            assert found.sd[quantity] == pytest.approx(sd, rel=1e-4)
        log_p = stats.norm.logcdf(high) if p.y[row] else stats.norm.logsf(low)
        assert found.log_evidence == pytest.approx(log_p, abs=1e-6)


@pytest.mark.parametrize("name", ["alternatives", "times", "members"])
def test_stored_moments_are_computed_anew(name):
    for row, found in enumerate(references.computed(name, panels=32)):
        stored = STORED[name][row]
        assert found.mean.keys() == stored.mean.keys()
        for quantity, sd in stored.sd.items():
            assert found.mean[quantity] == pytest.approx(stored.mean[quantity], abs=1e-4 * sd)
            assert found.sd[quantity] == pytest.approx(sd, rel=1e-4)
        assert found.log_evidence == pytest.approx(stored.log_evidence, abs=1e-4)


def test_the_index_has_the_rows_shapes_and_units_of_every_problem():
    index = json.loads(references.FILE.read_text(encoding="utf-8"))
    assert list(index["problems"]) == list(PROBLEMS)
    for name, own in index["problems"].items():
        p = PROBLEMS[name]
        assert own["numbers"] == p.numbers
        assert [own[key] for key in "xry"] == [references._plain(getattr(p, key)) for key in "xry"]
        assert own["resolution"] <= 1e-5
        sites = {q["name"].partition("[")[0] for q in own["quantities"]}
        assert sites >= {"z", "c"}
        for q in own["quantities"]:
            assert q["shape"] == [len(q["mean"])] == [len(q["sd"])] == [len(p.x)]
            assert q["unit"]


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "far_tails"])
def test_draws_of_the_library_are_those_of_the_reference(name):
    """The largest of some thirty errors, in Monte Carlo errors."""
    scores = study.run(fit_of(name, "exact draws", size=0.5))
    assert scores["in Monte Carlo errors"] < 4.5
    assert scores["sd error"] < 10.0 * scores["Monte Carlo error"]
    assert scores["log evidence error"] < 0.1


def test_a_guide_that_has_not_seen_y_is_found_to_be_off():
    scores = study.run(fit_of("one_cost", "guide prior", size=0.1))
    assert scores["in Monte Carlo errors"] > 20.0
    assert scores["sd error"] > 0.3


def test_the_error_of_an_evidence_is_unknown_where_no_proposal_is_near():
    """By the delta method it would be 1 nat at most, for an estimate that is wrong by several."""
    options = {"num_samples": 500, "num_proposals": 4096, "progress": False}
    with pytest.warns(UserWarning, match="effective sample size below 100") as told:
        draws = model_of("far_tails").posterior(*rows_of("far_tails"), **options)
    wanted = torch.tensor([row.log_evidence for row in STORED["far_tails"]])
    off, error = (draws.log_evidence - wanted).abs(), draws.log_evidence_error
    assert (off[2:] > 2.0).all()
    assert error[2:].isinf().all()
    assert error[0].isfinite()
    assert off[0] < 5.0 * error[0]
    high = bool((draws.pareto_k > 0.7).any())
    assert ("Pareto k" in str(told[0].message)) == high


def fit_of(dataset, method, size):
    return Fit("posteriors", dataset, "default", "known", "0", 0, method, f'{{"size":{size}}}')


def rows_in_table(fits, run):
    return pd.DataFrame(
        [
            {**vars(fit), "metric": metric, "value": value, "seconds": 0.0, "epochs": 0}
            for fit in fits
            for metric, value in run(fit).items()
        ],
        columns=COLUMNS,
    )


def test_reports_have_a_row_for_each_method():
    methods = ["exact draws", "guide posterior_full"]
    fits = [fit_of("one_cost", method, size=0.02) for method in methods]
    lines = study.report(rows_in_table(fits, study.run)).splitlines()
    assert lines[0] == "|  | one_cost |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {method}" for method in methods]
