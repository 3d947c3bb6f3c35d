"""Intervals that hold the share of outcomes which is asked for, whatever the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pyro_gcm
from pyro_gcm.estimators import GCMRegressor, IGCMRegressor

SMALL: Any = {
    "monotonic_cst": {"dose": 1}, "members": 4, "hidden": 8, "random_state": 0, "device": "cpu",
}  # fmt: skip


def rows(count: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Outcomes with a spread that normal densities of one width do not have."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=count), "dose": rng.random(count)})
    return X, X["age"].to_numpy() + 2 * X["dose"].to_numpy() + rng.standard_t(3, size=count)


@pytest.fixture(scope="module")
def fitted() -> GCMRegressor:
    return GCMRegressor(**SMALL, response="continuous").fit(*rows(600, 0))


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_an_interval_covers_what_is_asked_for(fitted: GCMRegressor, coverage: float) -> None:
    X, y = rows(4000, 1)
    low, high = fitted.predict_interval(X, coverage=coverage).T
    assert ((low <= y) & (y <= high)).mean() == pytest.approx(coverage, abs=0.04)
    assert (low < high).all()


def test_both_ends_rise_with_the_revenue(fitted: GCMRegressor) -> None:
    X, _ = rows(2000, 2)
    more = X.assign(dose=X["dose"] + np.geomspace(1e-12, 1.0, len(X)))
    before, after = (fitted.predict_interval(table, coverage=0.9) for table in (X, more))
    assert (after >= before).all()


def test_weights_count_and_saved_intervals_stay(tmp_path: Path) -> None:
    X, y = rows(200, 3)
    kept = np.arange(200) % 2 == 0
    whole = GCMRegressor(**SMALL, response="distribution").fit(X, y, kept.astype(float))
    half = GCMRegressor(**SMALL, response="distribution").fit(X[kept], y[kept])
    np.testing.assert_allclose(whole.ranks_, half.ranks_, rtol=1e-4)
    pyro_gcm.save(whole, tmp_path / "model")
    loaded = pyro_gcm.load(tmp_path / "model")
    wanted = whole.predict_interval(X, coverage=0.9)
    np.testing.assert_array_equal(loaded.predict_interval(X, coverage=0.9), wanted)


def test_coverage_needs_rows_that_members_left_out(fitted: GCMRegressor) -> None:
    X, y = rows(60, 4)
    for model in (
        GCMRegressor(**SMALL, epochs=1),
        IGCMRegressor(monotonic_cst={"dose": 1}, epochs=1),
    ):
        model.fit(X, y)
        with pytest.raises(ValueError, match="coverage needs predictions of rows that members"):
            model.predict_interval(X, coverage=0.9)
    with pytest.raises(ValueError, match="coverage must be"):
        fitted.predict_interval(X, coverage=1.5)
