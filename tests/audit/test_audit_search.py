"""The searches: the pairs they visit, what they find, and what counts as a violation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import GCM
from pyro_gcm.audit import MonotonicityAudit, audit_monotonicity
from pyro_gcm.baselines import MLP

_rng = np.random.default_rng(3)
X, R = _rng.normal(size=(60, 2)), _rng.uniform(0.25, 0.75, (60, 3))
TENTHS = np.arange(11.0)[:, None] / 10.0
NO_X = np.zeros((11, 1))


def audit(predictor: Any, x: Any = X, r: Any = R, **options: Any) -> MonotonicityAudit:
    return audit_monotonicity(predictor, x, r, progress=False, **{"pairs": 6000, **options})


class Recorder:
    """A linear function of arrays or tensors that records its batches."""

    def __init__(self, tensors: bool = False, weights: tuple[float, ...] = (1.0, 1.0, 1.0)) -> None:
        self.tensors, self.weights = tensors, weights
        self.x: list[Any] = []
        self.r: list[Any] = []

    def __call__(self, x: Any, r: Any) -> Any:
        if isinstance(r, torch.Tensor) != self.tensors:
            raise TypeError("wrong type of array")
        if not (self.tensors and r.requires_grad):
            self.x.append(np.asarray(x))
            self.r.append(np.asarray(r))
        terms = [w * r[:, j] for j, w in enumerate(self.weights)]
        return sum(terms[1:], terms[0])

    def ends(self, start: int, stop: int | None = None) -> tuple[Any, Any, Any]:
        """x and the two elements of the pairs in the calls from `start` on."""
        x, r = self.x[start:stop], self.r[start:stop]
        assert [len(low) for low in r[::2]] == [len(high) for high in r[1::2]]
        for one, other in zip(x[::2], x[1::2], strict=True):
            np.testing.assert_array_equal(one, other)
        return np.concatenate(x[::2]), np.concatenate(r[::2]), np.concatenate(r[1::2])


@pytest.mark.parametrize("search", ["random", "grid", "gradient"])
@pytest.mark.parametrize("tensors", [False, True], ids=["arrays", "tensors"])
def test_pairs_are_ordered_within_bounds_and_have_x_of_a_row(search: str, tensors: bool) -> None:
    recorder = Recorder(tensors, (1.0, -1.0, 5.0))
    found = audit(recorder, increasing=[1, -1, 0], searches=[search], margin=0.5, batch_size=512)
    assert found.passed
    assert found.pairs <= 6000
    assert max(map(len, recorder.r)) <= 512
    x, low, high = recorder.ends(1)  # after the first call with a few rows
    assert (high[:, 0] >= low[:, 0]).all()
    assert (high[:, 1] <= low[:, 1]).all()
    rows = [int(np.flatnonzero((row == X).all(1))[0]) for row in x]
    for end in (low, high):  # columns that are not checked are those of the row
        np.testing.assert_array_equal(end[:, 2], R[rows, 2])
    both = np.concatenate([low, high])[:, :2]
    beyond = 0.5 * np.ptp(R[:, :2], axis=0)
    lower, upper = R[:, :2].min(0), R[:, :2].max(0)
    assert (both >= lower - beyond).all()
    assert (both <= upper + beyond).all()
    assert (both.min(0) < lower).all()
    assert (both.max(0) > upper).all()
    recorder = Recorder(tensors)
    audit(recorder, searches=[search])  # without a margin
    both = np.concatenate(recorder.r)
    np.testing.assert_array_equal([both.min(0), both.max(0)], [R.min(0), R.max(0)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_steps_range_from_one_ulp_to_the_whole_range(dtype: str) -> None:
    recorder = Recorder(tensors=True)
    audit(recorder, r=TENTHS.repeat(3, 1), x=NO_X, searches=["random"], dtype=dtype)
    _, low, high = recorder.ends(1)
    assert low.dtype == dtype
    assert (low < high).any(1).all()
    assert (high == np.nextafter(low, np.inf, dtype=dtype)).any()
    assert 0.9 < (high - low).max() <= 1.0


def test_rate_of_random_pairs_agrees_with_numerical_integration() -> None:
    """For the prediction |r - 1/2| and drops of more than 1e-6."""

    def distance(x: Any, r: Any) -> Any:
        return abs(r[:, 0] - 0.5)

    found = audit(distance, NO_X, TENTHS, searches=["random"], pairs=40_000, tolerance=1e-6)
    share = (np.arange(20_000) + 0.5) / 20_000
    rates = []
    for r in TENTHS[:, 0]:
        step = np.exp((1.0 - share) * np.log(np.spacing(max(r, 2.0**-20))))
        up, down = np.minimum(r + step, 1.0), np.maximum(r - step, 0.0)
        drops_up = (abs(r - 0.5) - abs(up - 0.5) > 1e-6).mean()
        drops_down = (abs(down - 0.5) - abs(r - 0.5) > 1e-6).mean()
        rates.append({0.0: drops_up, 1.0: drops_down}.get(r, (drops_up + drops_down) / 2.0))
    expected = np.mean(rates)
    assert 0.1 < expected < 0.4
    assert abs(found.rate - expected) < 4.0 * np.sqrt(expected * (1.0 - expected) / 40_000)
    assert found.violations == found.frame["violations"].sum() == found.drops["violations"].sum()


def test_columns_are_varied_alone_and_together() -> None:
    """Each of two columns is varied with probability 1/2, or alone (1/4) if neither is."""
    r = R[:, :2]
    found = audit(lambda x, r: -r[:, 1], r=r, searches=["random"], pairs=20_000, tolerance=0.0)
    assert abs(found.rate - 5 / 8) < 4.0 * np.sqrt(5 / 8 * 3 / 8 / 20_000)
    table = found.by_column.set_index("column")
    assert table.loc["r[1]", "rate"] == 1.0
    assert table.loc["r[0]", "violations_alone"] == 0
    assert table["pairs"].sum() - 20_000 == table.loc["r[0]", "violations"]


def dip(x: Any, r: Any) -> Any:
    """The identity with a narrow dip between two rows of the data."""
    exp = torch.exp if isinstance(r, torch.Tensor) else np.exp
    return r[:, 0] - 0.01 * exp(-(((r[:, 0] - 0.5537) / 5e-4) ** 2))


def dip_of_arrays(x: Any, r: Any) -> Any:
    if isinstance(r, torch.Tensor):
        raise TypeError("arrays only")
    return dip(x, r)


@pytest.mark.parametrize("function", [dip, dip_of_arrays])
def test_narrow_dip_that_random_pairs_miss_is_found_with_its_full_depth(function: Any) -> None:
    assert audit(function, NO_X, TENTHS, searches=["random"], pairs=30_000).passed
    found = audit(function, NO_X, TENTHS, pairs=90_000)
    rate = found.frame.set_index("search")["rate"]
    assert rate["random"] == 0
    assert rate["grid"] > 0
    dense = dip(None, np.linspace(0.55, 0.56, 200_001)[:, None])
    largest = (np.maximum.accumulate(dense) - dense).max()
    assert found.largest_drop == pytest.approx(largest, rel=1e-3)
    assert found.witness.search == "gradient"


def test_gradient_search_works_alone() -> None:
    assert audit(dip, NO_X, TENTHS, searches="gradient", pairs=30_000).largest_drop > 0.0085
    local = audit(lambda x, r: np.sin(4.0 * np.asarray(r)[:, 0]), NO_X, TENTHS, searches="gradient")
    assert local.largest_drop == pytest.approx(1.0 - np.sin(4.0), rel=1e-3)


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


@pytest.mark.parametrize(
    ("predictor", "options", "passed"),
    [
        (mixed, {"increasing": [1, -1, 0]}, True),
        (mixed, {"increasing": [1, -1, 1]}, False),
        (lambda x, r: -r[:, 0], {"increasing": False}, True),
        (lambda x, r: 1000.0 - r[:, 0], {"tolerance": 1e-3}, True),
        (lambda x, r: 1.0 - r[:, 0], {"tolerance": 1e-3}, False),
        (lambda x, r: -1e-13 * r[:, 0], {"tolerance": 0.0}, False),
        (lambda x, r: np.where(np.asarray(r)[:, 0] > 0.5, -1.7e308, 1.7e308), {}, False),
        (GCM(2, 3, num_samples=16), {"pairs": 600}, True),
        (GCM(2, 3, num_samples=16), {"pairs": 600, "increasing": False}, False),
    ],
)
def test_audit_passes_if_no_drop_in_the_chosen_direction_exceeds_the_tolerance(
    predictor: Any, options: dict[str, Any], passed: bool
) -> None:
    found = audit(predictor, **options)
    assert found.passed == passed == (found.violations == 0)
    assert found.violations == found.drops["violations"].sum()
    assert found.ties < 0.6 * found.pairs or not isinstance(predictor, GCM)


def test_summary_names_the_columns_of_data_frames() -> None:
    x = pd.DataFrame(X, columns=["age", "income"])
    r = pd.DataFrame(R, columns=["bid", "price", "quality"])
    found = audit(lambda x, r: r[:, 0] + r[:, 1], x, r, increasing=[1, -1, 1])
    text = found.summary()
    assert text.startswith(f"monotonicity FAILED: {found.violations} violations")
    assert "(decreasing)" in text
    assert "income = " in text
    assert found.by_column["column"].tolist() == ["bid", "price", "quality"]
    unchecked = audit(mixed, increasing=[1, 1, 0]).by_column.set_index("column")
    assert unchecked.index.tolist() == ["r[0]", "r[1]"]
    assert unchecked["violations_alone"]["r[0]"] == 0
    with pytest.warns(UserWarning, match="predictions range from .* use larger units"):
        passed = audit(lambda x, r: -1e-13 * r[:, 0])  # small units hide a violation
    assert "monotonicity passed: 0 violations" in passed.summary()


def test_ties_of_steps_between_integers_are_counted() -> None:
    """Of the steps of one from 0 to 9, only 3 to 4 and 7 to 8 change floor(r / 4)."""
    r = np.arange(10.0)[:, None]
    found = audit(lambda x, r: r[:, 0] // 4, NO_X[:10], r, searches=["grid"])
    assert found.passed
    assert (found.pairs, found.ties) == (90, 70)
    gaps = np.array([0.0, 1.0, 5.0, 20.0, 5.0])[:, None]
    recorder = Recorder(weights=(1.0,))
    audit(recorder, NO_X[:5], gaps, searches=["grid"])
    _, low, high = recorder.ends(1)
    assert set(zip(low[:, 0], high[:, 0], strict=True)) == {(0, 1), (1, 5), (5, 20)}


def test_witness_is_a_reproducible_violation() -> None:
    def wave(x: Any, r: Any) -> Any:
        sin = torch.sin if isinstance(r, torch.Tensor) else np.sin
        return sin(9.0 * r[:, 0] + x[:, 0]) - r[:, 1]

    found = audit(wave, increasing=[1, -1, 1])
    w = found.witness
    assert w.confirmed
    assert "confirmed in calls with one row" in found.summary()
    alone = audit(lambda x, r: r[:, 0] if len(r) == 1 else -r[:, 0])
    assert alone.witness.alone_low < alone.witness.alone_high
    assert not alone.witness.confirmed
    assert "NOT confirmed" in alone.summary()
    np.testing.assert_array_equal(w.x, X[w.row])
    assert w.r_low[0] < w.r_high[0]
    assert w.r_low[1] == w.r_high[1]
    low, high = (float(wave(w.x[None], r[None])[0]) for r in (w.r_low, w.r_high))
    assert low - high == pytest.approx(w.drop, abs=1e-14)
    assert w.drop == found.largest_drop == pytest.approx(2.0, abs=1e-3)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r": np.ones_like(R)}, "r must vary in a column that is checked"),
        ({"increasing": [1, 2, 0]}, "increasing must be True, False, or .* each of the 3"),
        ({"increasing": [1, 1]}, "increasing must be True, False, or .* each of the 3"),
        ({"increasing": [0, 0, 0]}, r"increasing=\[0, 0, 0\] excludes them"),
        ({"searches": ["random", "brute"]}, "searches must be one of"),
        ({"searches": []}, "searches must be different, from"),
        ({"margin": -0.1}, "margin must be a number of at least 0"),
        ({"tolerance": np.nan}, "tolerance must be a number of at least 0"),
        ({"dtype": "float16"}, "dtype must be one of"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        audit(lambda x, r: r[:, 0], **options)
