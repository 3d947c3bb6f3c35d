"""A budget is spent as the best of all choices does; thresholds minimise the cost of errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyro_gcm.decisions import allocate, allocate_by_multiplier, cost_threshold


def problem(rng: np.random.Generator) -> tuple[Any, Any, float]:
    """Gains, spends and a budget of a few rows; some in whole numbers, whose sums meet it."""
    n, options = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    gain, spend = rng.uniform(-1.0, 5.0, (n, options)), rng.uniform(0.0, 3.0, (n, options))
    budget = float(rng.uniform(0.0, 1.2) * n * 1.5)
    if rng.random() < 0.5:
        gain, spend, budget = gain.round(), spend.round(), float(round(budget))
    return gain, spend, budget


def best_of_all(gain: Any, spend: Any, budget: float) -> float:
    """The largest gain within the budget, by enumeration of all choices."""
    gain, spend = (np.pad(each, ((0, 0), (1, 0))) for each in (gain, spend))
    rows, best = np.arange(len(gain)), 0.0
    for choice in itertools.product(range(gain.shape[1]), repeat=len(gain)):
        if spend[rows, choice].sum() <= budget:
            best = max(best, gain[rows, choice].sum())
    return float(best)


def test_an_allocation_is_the_best_of_all_choices() -> None:
    rng, gaps = np.random.default_rng(0), 0
    for number in range(200):
        gain, spend, budget = problem(rng)
        best = best_of_all(gain, spend, budget)
        exact = allocate(gain, spend, budget)
        assert exact.gain == pytest.approx(best, rel=1e-9, abs=1e-9), number
        assert exact.gap <= 1e-6 * max(1.0, best)
        fast = allocate_by_multiplier(gain, spend, budget)
        assert fast.gain <= best + 1e-9
        assert best <= fast.bound + 1e-9, number
        assert fast.gap <= max(0.0, gain.max()) + 1e-9, number
        gaps += fast.gain < best - 1e-9
        for found in (exact, fast):
            rows = np.flatnonzero(found.choice >= 0)
            assert found.spend <= budget
            assert found.spend == spend[rows, found.choice[rows]].sum()
            assert found.gain == gain[rows, found.choice[rows]].sum()
    assert gaps > 10  # the multiplier is not exact, and says so


def test_many_rows_leave_a_small_gap() -> None:
    rng = np.random.default_rng(0)
    bids = np.linspace(0.1, 3.0, 20)
    p = 1.0 / (1.0 + np.exp(4.0 * (rng.normal(1.5, 0.5, (2000, 1)) - bids)))
    worth = rng.uniform(0.0, 3.0, (2000, 1))
    budget = 0.3 * float((p * bids).max(1).sum())
    fast = allocate_by_multiplier(worth * p, p * bids, budget)
    assert 0.0 <= fast.gap < 1e-3 * fast.gain
    exact = allocate(worth * p, p * bids, budget)
    assert fast.gain <= exact.gain * (1.0 + 1e-9) <= fast.bound * (1.0 + 2e-9)
    more = allocate_by_multiplier(worth * p, p * bids, 1.01 * budget)
    assert (more.gain - fast.gain) / (0.01 * budget) == pytest.approx(fast.multiplier, rel=0.1)
    assert allocate_by_multiplier(worth * p, bids, 1e9).multiplier == 0.0


def test_budgets_that_cannot_be_spent_are_refused() -> None:
    one: Any = np.ones((2, 3))
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((one[0], one[0], 1.0), r"gain must have shape \[n, R\]"),
        ((one, one[:1], 1.0), r"spend the same or \[R\]"),
        ((one * np.nan, one, 1.0), "gain must be finite"),
        ((one, -one, 1.0), "spend must be finite and at least 0, got -1"),
        ((one, one, -1.0), "budget must be"),
    ]
    for arguments, message in wrong:
        for ask in (allocate, allocate_by_multiplier):
            with pytest.raises(ValueError, match=message):
                ask(*arguments)


def test_the_threshold_is_where_acting_gets_cheaper() -> None:
    p = np.linspace(0.0, 1.0, 1001)
    rng = np.random.default_rng(0)
    for _ in range(50):
        hit, rejection = rng.normal(size=2)
        false_alarm, miss = rejection + rng.uniform(0.1, 5.0), hit + rng.uniform(0.1, 5.0)
        acting = p * hit + (1.0 - p) * false_alarm
        waiting = p * miss + (1.0 - p) * rejection
        at = cost_threshold(false_alarm, miss, hit=hit, rejection=rejection)
        clear = np.abs(acting - waiting) > 1e-9
        assert ((acting < waiting) == (p >= at))[clear].all()
    assert cost_threshold([1.0, 2.0], 2.0).tolist() == pytest.approx([1.0 / 3.0, 0.5])
    for costs, message in (((0.0, 1.0), "false_alarm"), ((1.0, [1.0, -1.0]), "miss")):
        with pytest.raises(ValueError, match=f"{message} must cost more"):
            cost_threshold(*costs)
