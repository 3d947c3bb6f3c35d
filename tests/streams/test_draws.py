"""Keys depend on seed, purpose and row alone, and rows for validation are drawn by them."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_gcm.streams.draws import held_out, keys, training_count

ROWS = 100_000


def test_keys_are_those_of_each_row_in_any_block() -> None:
    every = keys(0, "sample", 0, ROWS)
    parts = [keys(0, "sample", *bounds) for bounds in ((0, 1), (1, 70_001), (70_001, ROWS))]
    assert np.array_equal(np.concatenate(parts), every)
    assert len(np.unique(every)) == ROWS
    for other in (keys(1, "sample", 0, ROWS), keys(0, "validation", 0, ROWS)):
        assert abs(np.corrcoef(every / 2.0**64, other / 2.0**64)[0, 1]) < 5.0 / ROWS**0.5


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.1, 0.5, 0.999])
def test_the_share_of_validation_rows_is_as_asked(share: float) -> None:
    drawn = held_out(7, share, 0, ROWS)
    spread = (share * (1.0 - share) * ROWS) ** 0.5
    assert abs(drawn.sum() - share * ROWS) <= 4.0 * spread
    assert training_count(7, share, 0, ROWS) == ROWS - drawn.sum()
    assert (drawn <= held_out(7, 0.9995, 0, ROWS)).all()  # a larger share keeps those of a smaller
