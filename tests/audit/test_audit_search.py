"""The search: the pairs that it tries, the faults that it finds, and what counts as one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import GCM
from pyro_gcm.audit import SEARCHES, MonotonicityAudit, audit_monotonicity
from pyro_gcm.audit.pairs import Pairs, Space, grid_pairs, random_pairs, worsened_pairs
from pyro_gcm.baselines import MLP

_rng = np.random.default_rng(3)
X, R = _rng.normal(size=(60, 2)), _rng.uniform(0.25, 0.75, (60, 3))
TENTHS = np.arange(11.0)[:, None] / 10.0
NO_X = np.zeros((11, 1))


def audit(predictor: Any, x: Any = X, r: Any = R, **options: Any) -> MonotonicityAudit:
    return audit_monotonicity(predictor, x, r, progress=False, **{"pairs": 6000, **options})


# Pairs


def tried(search: str, space: Space, count: int = 6000) -> Pairs:
    """The pairs that one search tries on a function that rises in all columns."""
    every: list[Pairs] = []

    def drops(pairs: Pairs) -> Any:
        every.append(pairs)
        return (pairs.low - pairs.high).sum(1)

    def worst() -> Any:
        pairs = joined()
        return pairs, (pairs.low - pairs.high).sum(1)

    def joined() -> Pairs:
        return Pairs(*(np.concatenate(parts) for parts in zip(*every, strict=True)))

    kinds: Any = random_pairs, grid_pairs, partial(worsened_pairs, worst=worst)
    propose = dict(zip(SEARCHES, kinds, strict=True))[search]
    propose(space, count, np.random.default_rng(0), drops)
    return joined()


def test_pairs_are_ordered_within_bounds_and_of_every_row() -> None:
    for search in SEARCHES:
        space = Space(R, np.array([1.0, -1.0, 0.0]), 0.5, np.dtype("float64"))
        rows, low, high = tried(search, space)
        assert 5900 < len(rows) <= 6000, search
        assert set(rows) == set(range(60)), search
        assert (low <= high).all()
        for end in (low, high):  # columns that are not checked are those of the row
            np.testing.assert_array_equal(end[:, 2], R[rows, 2])
        both = np.concatenate([low, high])[:, :2] * [1.0, -1.0]
        beyond, lower, upper = 0.5 * np.ptp(R[:, :2], axis=0), R[:, :2].min(0), R[:, :2].max(0)
        assert (both >= lower - beyond).all()
        assert (both <= upper + beyond).all()
        assert (both.min(0) < lower).all()
        assert (both.max(0) > upper).all()


def test_steps_range_from_one_ulp_to_the_whole_range() -> None:
    for dtype in ("float32", "float64"):
        space = Space(TENTHS.repeat(3, 1), np.ones(3), 0.0, np.dtype(dtype))
        for search in ("random", "grid"):
            _, low, high = tried(search, space)
            low, high = low.astype(dtype), high.astype(dtype)
            assert (low < high).any(1).all()
            assert (high == np.nextafter(low, np.inf, dtype=dtype)).any(), search
            ends = (low == 0.0).any() and (high == 1.0).any()
            assert ends, search
        assert 0.9 < (tried("random", space)[2] - tried("random", space)[1]).max() <= 1.0


def test_a_grid_has_the_values_of_a_column_of_integers() -> None:
    space = Space(np.array([0.0, 1.0, 5.0, 20.0, 5.0])[:, None], np.ones(1), 0.0, np.dtype("d"))
    _, low, high = tried("grid", space)
    whole = {(0, 1), (1, 5), (5, 20)}
    pairs = [*zip(low[:, 0], high[:, 0], strict=True)]
    assert whole <= set(pairs)
    # The others begin at an end of such a step, and are shorter.
    assert all(any(a <= s < e <= b and (s == a or e == b) for a, b in whole) for s, e in pairs)
    assert len(pairs) == 2 * 5 * 3


def test_columns_are_varied_alone_and_together() -> None:
    """Each of two columns is varied with probability 1/2, or alone (1/4) if neither is."""
    r = R[:, :2]
    found = audit(lambda x, r: -r[:, 1], r=r, searches=["random"], pairs=20_000, tolerance=0.0)
    assert abs(found.rate - 5 / 8) < 4.0 * np.sqrt(5 / 8 * 3 / 8 / 20_000)
    table = found.by_column.set_index("column")
    assert table.loc["r[1]", "rate"] == 1.0
    assert table.loc["r[0]", "violations_alone"] == 0
    assert table["pairs"].sum() - 20_000 == table.loc["r[0]", "violations"]


# Faults

MANY = np.random.default_rng(5).random((3000, 3))
LOWEST, TOP = MANY.min(0), MANY.max(0)
NOISE = np.random.default_rng(6)


def noisy(rng: np.random.Generator, r: Any) -> Any:
    return r.sum(1) + 1e-3 * rng.normal(size=len(r))


#: Predictors by their fault, and whether calls with one row may have it.
FAULTS: dict[str, tuple[Any, bool]] = {
    "draws anew in each call": (lambda x, r: noisy(NOISE, r), True),
    "draws the same in each call": (lambda x, r: noisy(np.random.default_rng(0), r), False),
    "place in the call": (lambda x, r: r.sum(1) + 1e-3 * np.sin(np.arange(len(r))), False),
    "size of the call": (lambda x, r: r.sum(1) + 1e-3 * (len(r) % 7), False),
    "calls of one row": (lambda x, r: r.sum(1) - 1e-3 * (len(r) == 1), False),
    "mean of the call": (lambda x, r: r.sum(1) - r.mean(), False),
    "one late row": (lambda x, r: np.where(x[:, 0] == 2417.0, -1.0, 1.0) * r.sum(1), True),
    "neighbouring floats": (
        lambda x, r: r.sum(1) - 1e-3 * (np.ascontiguousarray(r[:, 0]).view(np.int64) & 1),
        True,
    ),
    "last float": (lambda x, r: r.sum(1) - 1e-9 * (r[:, 1] >= TOP[1]), True),
    "first float": (lambda x, r: r.sum(1) + 1e-9 * (r[:, 1] <= LOWEST[1]), True),
    "near an end": (lambda x, r: r.sum(1) - 1e-3 * (r[:, 0] > TOP[0] - 1e-12), True),
}


def test_planted_faults_are_found() -> None:
    x = np.arange(3000.0)[:, None]
    for fault, (predictor, alone) in FAULTS.items():
        found = audit(predictor, x, MANY, pairs=20_000, increasing=[1, 1, 0])
        assert found.violations > 0, fault
        assert found.rows == (3000, 3000)
        assert found.calls[0] > 200
        assert "at 3000 of 3000 rows, both ends at random places of " in found.searched
        if not alone:
            assert not found.witness.confirmed, fault
            assert "NOT confirmed in calls with one row" in found.summary()


def test_few_pairs_are_of_rows_from_the_whole_table() -> None:
    x = np.arange(3000.0)[:, None]
    late = audit(lambda x, r: np.where(x[:, 0] < 512, 1.0, -1.0) * r[:, 0], x, MANY, pairs=30)
    assert late.violations > 5
    assert late.rows[1] == 3000


def dip(x: Any, r: Any) -> Any:
    """The identity with a narrow dip between two rows of the data."""
    return r[:, 0] - 0.01 * np.exp(-(((r[:, 0] - 0.5537) / 5e-4) ** 2))


def test_narrow_dip_that_random_pairs_miss_is_found_with_its_full_depth() -> None:
    assert audit(dip, NO_X, TENTHS, searches=["random"], pairs=30_000).passed
    found = audit(dip, NO_X, TENTHS, pairs=90_000)
    assert found.frame.set_index("search")["rate"]["random"] == 0
    dense = dip(None, np.linspace(0.55, 0.56, 200_001)[:, None])
    largest = (np.maximum.accumulate(dense) - dense).max()
    assert found.largest_drop == pytest.approx(largest, rel=1e-3)
    assert found.witness.search == "gradient"
    assert audit(dip, NO_X, TENTHS, searches="gradient", pairs=30_000).largest_drop > 0.0085


# What counts


def test_rounding_is_counted_and_is_not_a_violation() -> None:
    def increasing(x: Any, r: Any) -> Any:  # 2 r / 3 + 1 / 9
        r = r.float()[:, 0]
        return (r + 1 / 3) ** 2 - r**2

    found = audit(increasing, NO_X, TENTHS)
    assert found.passed
    assert found.rounding == found.drops["rounding"].sum() > 20
    assert 0.0 < found.largest_drop <= found.tolerance == 2.0**-20
    assert found.witness is None
    strict = audit(increasing, NO_X, TENTHS, tolerance=0.0)
    assert strict.rounding == 0
    assert strict.violations > 20


def mixed(x: Any, r: Any) -> Any:
    return r[:, 0] - 2.0 * r[:, 1] + 10.0 * (r[:, 2] - 0.5) ** 2


CASES: list[tuple[Any, dict[str, Any], bool]] = [
    (mixed, {"increasing": [1, -1, 0]}, True),
    (mixed, {"increasing": [1, -1, 1]}, False),
    (lambda x, r: -r[:, 0], {"increasing": False}, True),
    (lambda x, r: 1000.0 - r[:, 0], {"tolerance": 1e-3}, True),
    (lambda x, r: 1.0 - r[:, 0], {"tolerance": 1e-3}, False),
    (lambda x, r: -1e-13 * r[:, 0], {"tolerance": 0.0}, False),
    (lambda x, r: np.where(np.asarray(r)[:, 0] > 0.5, -1.7e308, 1.7e308), {}, False),
    (GCM(2, 3, num_samples=16), {"pairs": 600, "tolerance": 0.0}, True),
    (GCM(2, 3, num_samples=16), {"pairs": 600, "increasing": False}, False),
]


def test_audit_passes_if_no_drop_in_the_chosen_direction_exceeds_the_tolerance() -> None:
    for number, (predictor, options, passed) in enumerate(CASES):
        found = audit(predictor, **options)
        assert found.passed == passed == (found.violations == 0), number
        assert found.violations == found.drops["violations"].sum()
        assert found.ties < 0.6 * found.pairs or not isinstance(predictor, GCM)


def test_summary_names_the_columns_of_data_frames_and_says_what_was_searched() -> None:
    x = pd.DataFrame(X, columns=["age", "income"])
    r = pd.DataFrame(R, columns=["bid", "price", "quality"])
    found = audit(lambda x, r: r[:, 0] + r[:, 1], x, r, increasing=[1, -1, 1])
    text = found.summary()
    assert text.startswith(f"monotonicity FAILED: {found.violations} violations")
    assert "(decreasing)" in text
    assert "income = " in text
    low, high = R[:, 1].min(), R[:, 1].max()
    assert f"price from {low:.6g} to {high:.6g}" in found.searched
    assert " ".join(text.split()).count(found.searched) == 1
    assert found.by_column["column"].tolist() == ["bid", "price", "quality"]
    unchecked = audit(mixed, increasing=[1, 1, 0]).by_column.set_index("column")
    assert unchecked.index.tolist() == ["r[0]", "r[1]"]
    assert unchecked["violations_alone"]["r[0]"] == 0
    with pytest.warns(UserWarning, match="predictions range from .* use larger units"):
        passed = audit(lambda x, r: -1e-13 * r[:, 0])  # small units hide a violation
    assert "monotonicity passed: 0 violations" in passed.summary()


def test_witness_is_a_reproducible_violation() -> None:
    def wave(x: Any, r: Any) -> Any:
        return np.sin(9.0 * r[:, 0] + x[:, 0]) - r[:, 1]

    found = audit(wave, increasing=[1, -1, 1], pairs=30_000)
    w = found.witness
    assert w.confirmed
    assert "confirmed in calls with one row" in found.summary()
    np.testing.assert_array_equal(w.x, X[w.row])
    assert w.r_low[0] < w.r_high[0]
    assert w.r_low[1] == w.r_high[1]
    low, high = (float(wave(w.x[None], r[None])[0]) for r in (w.r_low, w.r_high))
    assert low - high == pytest.approx(w.drop, abs=1e-14)
    assert w.drop == found.largest_drop == pytest.approx(2.0, abs=5e-3)
    line = w.r_low + np.linspace(0.0, 1.0, 101)[:, None] * (w.r_high - w.r_low)
    np.testing.assert_allclose(w.segment, wave(w.x[None].repeat(101, 0), line), atol=1e-13)


def test_result_depends_on_the_seed_and_global_random_states_are_unchanged() -> None:
    model = MLP(2, 3)
    before = torch.get_rng_state(), str(np.random.get_state())
    first, again, other = (audit(model, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == str(np.random.get_state())
    for name in ("frame", "by_column", "drops"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(again, name))
    assert not first.by_column.equals(other.by_column)
    np.testing.assert_array_equal(first.witness.r_high, again.witness.r_high)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"r": np.ones_like(R)}, "r must vary in a column that is checked"),
    ({"increasing": [1, 2, 0]}, r"increasing must be \+1, -1 or 0 for each of the 3 columns"),
    ({"increasing": [1, 1]}, r"increasing must be \+1, -1 or 0 for each of the 3 columns"),
    ({"increasing": [0, 0, 0]}, r"increasing=\[0, 0, 0\] excludes them"),
    ({"searches": ["random", "brute"]}, "searches must be one of"),
    ({"searches": []}, "searches must be one of"),
    ({"margin": -0.1}, "margin must be a finite number of at least 0"),
    ({"tolerance": np.nan}, "tolerance must be a finite number of at least 0"),
    ({"dtype": "float16"}, "dtype must be one of"),
]


def test_invalid_arguments_are_refused() -> None:
    for options, message in WRONG:
        with pytest.raises(ValueError, match=message):
            audit(lambda x, r: r[:, 0], **options)
