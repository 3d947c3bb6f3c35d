"""The nine known posteriors: the index is right, and so are the draws of the library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from reproduce.posteriors import coverage, references, study
from reproduce.posteriors.references import PROBLEMS
from reproduce.runs import Fit

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


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "far_tails"])
def test_draws_of_the_library_are_those_of_the_reference(name):
    """The largest of some thirty errors, in Monte Carlo errors."""
    scores = study.run(fit_of(name, "exact draws", size=0.5))
    assert scores["in Monte Carlo errors"] < 4.5
    # A tenth of the draws of a cost may be finite, whose tail is that of an exponential.
    assert scores["sd error"] < 20.0 * scores["Monte Carlo error"]
    assert scores["log evidence error"] < 0.1


def test_a_guide_that_has_not_seen_y_is_found_to_be_off():
    scores = study.run(fit_of("one_cost", "guide prior", size=0.1))
    assert scores["in Monte Carlo errors"] > 20.0
    assert scores["sd error"] > 0.3


def fit_of(dataset, method, size):
    return Fit("posteriors", dataset, "default", "known", "0", 0, method, f'{{"size":{size}}}')


@pytest.mark.parametrize("story", coverage.STORIES)
def test_outcomes_of_simulated_stories_come_as_often_as_their_probability(story):
    for low, high in ((0.0, 0.5), (0.5, 1.0)):
        off = variance = 0.0
        for seed in range(10):
            _, _, y, c, p, _ = coverage.simulated(story, seed)
            assert c.shape[0] == len(y) == len(p) == coverage.ROWS + coverage.NEW
            of = (low <= p) & (p < high)
            off += float((y - p)[of].sum())
            variance += float((p * (1.0 - p))[of].sum())
        assert abs(off) < 4.5 * variance**0.5


def test_places_of_the_truth_among_draws_are_uniform_where_draws_tie():
    g = torch.Generator().manual_seed(0)
    draws, true = (torch.rand(n, 20_000, generator=g) < 0.3 for n in (99, 1))
    place = coverage.places(draws.float(), true[0].float(), g)
    assert abs(coverage.inside(place) - 0.9) < 4.5 * (0.09 / 20_000) ** 0.5
