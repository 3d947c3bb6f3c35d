"""Keys look random, and depend on seed, purpose and row alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pyro_gcm.streams.keys import keys, training_count, training_rows

ROWS = np.arange(100_000)


def test_keys_are_those_of_splitmix64() -> None:
    """The first numbers of the reference implementation, of the state that a purpose has."""
    from pyro_gcm.streams.keys import seed_for

    state, mask = seed_for(5, "sample"), 2**64 - 1
    expected = []
    for _ in range(4):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        expected.append(z ^ (z >> 31))
    assert keys(5, "sample", ROWS[:4]).tolist() == expected
    assert keys(5, "sample", ROWS[2:4]).tolist() == expected[2:]


def test_keys_are_uniform_and_independent() -> None:
    one = keys(0, "validation", ROWS) / 2.0**64
    assert stats.kstest(one, "uniform").pvalue > 1e-3
    assert len(np.unique(one)) == len(ROWS)
    others = [keys(1, "validation", ROWS), keys(0, "sample", ROWS), keys(0, "validation", ROWS + 1)]
    for other in others:
        table = np.histogram2d(one, other / 2.0**64, bins=16)[0]
        assert stats.chisquare(table.ravel()).pvalue > 1e-3
    bits = np.unpackbits(keys(0, "sample", ROWS).view(np.uint8)).reshape(len(ROWS), 64)
    assert np.abs(bits.mean(0) - 0.5).max() < 5.0 / (2.0 * len(ROWS) ** 0.5)


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.1, 0.5, 0.999])
def test_the_share_of_validation_rows_is_as_asked(share: float) -> None:
    train = training_rows(7, share, 0, len(ROWS))
    drawn = len(ROWS) - len(train)
    assert abs(drawn - share * len(ROWS)) <= 4.0 * (share * (1.0 - share) * len(ROWS)) ** 0.5
    assert training_count(7, share, 0, len(ROWS)) == len(train)
    parts = [training_rows(7, share, *bounds) for bounds in ((0, 1), (1, 70_001), (70_001, 10**5))]
    assert np.array_equal(np.concatenate(parts), train)


def test_a_larger_share_keeps_the_rows_of_a_smaller_one() -> None:
    few, many = (set(training_rows(7, share, 0, 1000).tolist()) for share in (0.5, 0.1))
    assert few < many
