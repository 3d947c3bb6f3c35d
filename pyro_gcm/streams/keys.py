"""Random numbers of rows that depend on nothing but a seed, a purpose and the row's place."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

_GAMMA, _FIRST, _SECOND = (
    np.uint64(v) for v in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_ROWS = 1 << 16


def seed_for(seed: int, purpose: str) -> int:
    """A seed of 64 bits for one of the purposes of a seed."""
    return int.from_bytes(blake2b(f"{purpose} {seed}".encode(), digest_size=8).digest(), "little")


def keys(seed: int, purpose: str, rows: npt.NDArray[np.int64]) -> Keys:
    """A number of 64 random bits for each row, by splitmix64; no two rows have the same one.

    :param rows: numbers of rows, from 0.
    """
    state = rows.astype(np.uint64)
    state += np.uint64(1)
    state *= _GAMMA
    state += np.uint64(seed_for(seed, purpose))
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        state ^= state >> np.uint64(shift)
        state *= factor
    state ^= state >> np.uint64(31)
    return state


def training_rows(seed: int, share: float, first: int, last: int) -> npt.NDArray[np.int64]:
    """The rows of first..last - 1 that are not drawn for validation.

    :param share: of the rows that are drawn, from 0 to below 1.
    """
    rows = np.arange(first, last)
    if not share:
        return rows
    return rows[keys(seed, "validation", rows) >= np.uint64(int(share * 2.0**64))]


def training_count(seed: int, share: float, first: int, last: int) -> int:
    """How many of the rows first..last - 1 are not drawn for validation."""
    if not share:
        return last - first
    starts = range(first, last, _ROWS)
    return sum(len(training_rows(seed, share, i, min(i + _ROWS, last))) for i in starts)
