"""Random numbers of rows that depend on nothing but a seed, a purpose and the row's place."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_ROWS = 1 << 20


def seed_for(seed: int, purpose: str) -> int:
    """A seed of 64 bits for one of the purposes of a seed."""
    return int.from_bytes(blake2b(f"{purpose} {seed}".encode(), digest_size=8).digest(), "little")


def keys(seed: int, purpose: str, first: int, last: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each of the rows first..last - 1."""
    generator = np.random.PCG64(seed_for(seed, purpose)).advance(first)
    return np.asarray(generator.random_raw(last - first), np.uint64)


def held_out(seed: int, share: float, first: int, last: int) -> npt.NDArray[np.bool_]:
    """Whether each of the rows first..last - 1 is drawn for validation.

    :param share: of the rows that are drawn, from 0 to below 1.
    """
    if not share:
        return np.zeros(last - first, bool)
    return keys(seed, "validation", first, last) < np.uint64(int(share * 2.0**64))


def training_count(seed: int, share: float, first: int, last: int) -> int:
    """How many of the rows first..last - 1 are not drawn for validation."""
    if not share:
        return last - first
    parts = ((i, min(i + _ROWS, last)) for i in range(first, last, _ROWS))
    return last - first - sum(int(held_out(seed, share, *part).sum()) for part in parts)
