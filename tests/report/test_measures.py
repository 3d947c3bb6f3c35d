"""Numbers of a report against independent formulas: ranking, thresholds, drift, importance."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from pyro_gcm.report import profile_of
from pyro_gcm.report.columns import groups, importance, stability_index, table_of_columns
from pyro_gcm.report.decisions import auc_interval, decisions, ranking
from pyro_gcm.report.page import Table
from pyro_gcm.report.subject import Subject

ROWS = 400


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with ties, and calibrated events."""
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 4.0, ROWS).round(2)
    return p, rng.random(ROWS) < p


def subject(p: np.ndarray, event: np.ndarray, **options: Any) -> Subject:
    """A classifier whose prediction is its first column, and does not read the second one."""
    codes = [SimpleNamespace(sign=1), SimpleNamespace(sign=0)]
    estimator = SimpleNamespace(
        response="binary",
        classes_=np.array(["no", "yes"]),
        event_column_=1,
        encoding_=SimpleNamespace(columns=codes),
        directions_=[1, 0],
        predict_proba=lambda X: np.stack([1.0 - X["a"], X["a"]], 1),
        fit=print,  # which is not called
    )
    X = pd.DataFrame({"a": p, "b": np.arange(len(p)) % 3})
    return Subject(estimator, X, np.where(event, "yes", "no"), **options)


def tables(section: Any) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def test_ranking_is_that_of_pairs_and_its_interval_that_of_a_bootstrap(
    rows: tuple[np.ndarray, np.ndarray],
) -> None:
    p, event = rows
    auc, low, high = auc_interval(p, event)
    above, others = p[event][:, None], p[~event]
    assert auc == pytest.approx(((above > others) + 0.5 * (above == others)).mean(), abs=1e-12)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(2000):
        again = rng.integers(0, ROWS, ROWS)
        drawn.append(roc_auc_score(event[again], p[again]))
    # The standard error of a standard deviation of 2,000 draws is 1.6 %; the two agree to O(1/n).
    assert (high - low) / 3.92 == pytest.approx(np.std(drawn), rel=0.1)
    facts, _ = ranking(p, event)
    values = [float(fact.value) for fact in facts]
    ks = ks_2samp(p[event], p[~event]).statistic
    assert values == pytest.approx([auc, 2.0 * auc - 1.0, ks], abs=6e-4)
    assert auc_interval(np.array([0.1, 0.9]), np.array([False, True])) == (1.0, 1.0, 1.0)


def test_a_threshold_has_the_counts_rates_and_costs_of_its_rows(
    rows: tuple[np.ndarray, np.ndarray],
) -> None:
    p, event = rows
    section = decisions(subject(p, event, threshold=0.2))
    confusion, thresholds, bands = tables(section)
    counts = [[int(cell) for cell in row[1:]] for row in confusion.rows]
    above = p >= 0.2
    assert counts == [
        [(event & above).sum(), (event & ~above).sum()],
        [(~event & above).sum(), (~event & ~above).sum()],
    ]
    _, found, _ = [row for row in thresholds.rows if row[0] in ("all rows", "20\u00a0%", "no row")]
    shares = [float(cell.removesuffix("\u00a0%")) for cell in found[1:4]]
    expected = [above.mean(), precision_score(event, above), recall_score(event, above)]
    assert shares == pytest.approx([100.0 * share for share in expected], abs=0.051)
    cost = (~event & above).sum() + 4.0 * (event & ~above).sum()  # a missed event costs .8 / .2
    assert float(found[4]) == pytest.approx(100.0 * cost / ROWS, abs=0.051)
    assert sum(int(row[2]) for row in bands.rows) == ROWS
    assert bands.rows[-1][-1] == "100\u00a0%"
    assert decisions(subject(p, np.ones(ROWS, bool))) is None


def test_groups_have_their_own_rates(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, event = rows
    by = pd.Series(np.where(p > 0.3, "high", "low"), name="side")
    section = groups(subject(p, event, by=by, threshold=0.5))
    assert section is not None
    (table,) = tables(section)
    shown = {row[0]: row[1:] for row in table.rows}
    for name, here in (("high", p > 0.3), ("low", p <= 0.3)):
        assert shown[name][0] == str(here.sum())
        rate = float(shown[name][2].removesuffix("\u00a0%"))
        assert rate == pytest.approx(100.0 * event[here].mean(), abs=0.051)
        assert shown[name][4] == f"{roc_auc_score(event[here], p[here]):.3f}"
    assert groups(subject(p, event)) is None


def test_a_column_that_is_not_read_has_no_importance(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, event = rows
    found = subject(p, event).importance
    assert found["b"] == 0.0
    # The mean difference of two rows, which shuffling takes at random: within 4 of its errors.
    assert found["a"] == pytest.approx(np.abs(p[:, None] - p).mean(), abs=4.0 * p.std() / ROWS**0.5)
    section = importance(subject(p, event))
    assert section.in_short.startswith("The columns that matter most are “a” and “b”")


def test_drift_is_the_stability_index_of_tenths_levels_and_gaps() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=1000),
            "b": rng.choice(["x", "y"], 1000),
            "c": [0.0] * 900 + [5.0] * 100,
        }
    )
    profile = profile_of(X)
    assert all(sum(entry["shares"]) == pytest.approx(1.0) for entry in profile.values())
    assert all(stability_index(profile[name], X[name]) == 0.0 for name in X)
    moved = X["a"] + 1.0
    edges = np.quantile(X["a"], np.linspace(0.1, 0.9, 9))
    there, here = (
        np.histogram(values, [-np.inf, *edges, np.inf])[0] / 1000 for values in (X["a"], moved)
    )
    here = np.maximum(here, 1e-4)
    expected = ((here - there) * np.log(here / there)).sum()
    assert stability_index(profile["a"], moved) == pytest.approx(expected, rel=0.02)
    assert stability_index(profile["b"], pd.Series(["z"] * 50)) > 5.0
    gaps = X["c"].where(X.index >= 500)
    assert stability_index(profile["c"], gaps) > 1.0


def test_columns_that_have_drifted_are_named(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, event = rows
    one = subject(
        p, event, profile=profile_of(pd.DataFrame({"a": p / 3.0, "b": np.arange(ROWS) % 3}))
    )
    for code in one.estimator.encoding_.columns:
        vars(code).update(kind="number", low=0.0, high=1.0, seen=[])
    table, text = table_of_columns(one)
    assert isinstance(table, Table)
    assert float(table.rows[0][-1]) > 0.25
    assert "From 0.1 on: “a” (" in getattr(text, "text", "")
