"""One pass over all rows, before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm._utils.moments import Moments, moments
from pyro_gcm.streams.blocks import Block, Rows, checksum, gathered, selected
from pyro_gcm.streams.draws import held_out, keys
from pyro_gcm.streams.opening import Source

#: Rows that are looked at together, since each block takes a millisecond.
_LEAST_ROWS = 1 << 12


@dataclass(frozen=True)
class Survey:
    """The findings of one pass over all rows.

    :param rows: the number of rows, with those for validation.
    :param x: moments of the columns of x, of the training rows.
    :param r: moments of the columns of r, of the training rows.
    :param sample: training rows, in the order of the data: all, or a random choice of them.
    :param validation: the rows for validation, in the order of the data; there may be none.
    :param checksums: of each shard, a number that tells its rows from others.
    """

    rows: int
    x: Moments
    r: Moments
    sample: Block
    validation: Block
    checksums: list[int]


def survey(
    source: Source,
    *,
    seed: int,
    share: float,
    sample_rows: int,
    most_bytes: int,
    check: Callable[[Block, int], None],
    progress: bool,
) -> Survey:
    """Read all rows once. Which rows are drawn depends on the seed and on their places alone.

    In memory are the rows for validation, twice the sample at most, and a block.

    :param seed: of the choice of the rows for validation and of the sample.
    :param share: of the rows that are for validation, from 0 to below 1.
    :param sample_rows: most rows of the sample.
    :param most_bytes: that the rows for validation may take.
    :param check: called with each block and the number of its first row; raises an error for
        values that are not as they have to be.
    :param progress: whether to show a bar.
    :raises ValueError: if the rows for validation would take more than `most_bytes`, if there are
        no rows, or if none is left to train on; and whatever `check` raises.
    """
    from tqdm.auto import tqdm

    found = _Pass(source.rows, seed, share, sample_rows, most_bytes)
    shown = {"desc": "data", "unit": " rows", "unit_scale": True, "disable": not progress}
    with tqdm(total=source.rows, **shown) as bar:
        for shard in range(len(source.shards or [0])):
            found.checksums.append(0)
            for block in gathered(source.read(shard), _LEAST_ROWS):
                found.check_room(block)
                check(block, found.rows)
                found.add(block)
                bar.update(len(block["y"]))
    return found.result()


class _Pass:
    """The findings so far."""

    def __init__(
        self, known: int | None, seed: int, share: float, sample_rows: int, most_bytes: int
    ) -> None:
        self.rows = 0
        self.checksums: list[int] = []
        self._known, self._seed, self._share = known, seed, share
        self._most_bytes = most_bytes
        self._sample = _Sample(sample_rows, known)
        self._validation = Rows(round(1.02 * share * (known or 0)) + 1)
        none = moments(torch.empty(0, 1))
        self._x, self._r = none, none

    def add(self, block: Block) -> None:
        first, last = self.rows, self.rows + len(block["y"])
        self.checksums[-1] = checksum(block, self.checksums[-1])
        for_validation = held_out(self._seed, self._share, first, last)
        drawn = keys(self._seed, "sample", first, last)
        self._validation.append(selected(block, np.flatnonzero(for_validation)))
        if for_validation.any():
            block = selected(block, np.flatnonzero(~for_validation))
            drawn = drawn[~for_validation]
        self._x = self._x.merged(moments(block["x"]))
        self._r = self._r.merged(moments(block["r"]))
        self._sample.add(block, drawn)
        self.rows = last

    def result(self) -> Survey:
        if not self.rows:
            raise ValueError("data has no rows, at least one is needed")
        if len(self._validation) == self.rows:
            raise ValueError(
                f"validation must leave rows to train on, got {self._share} of {self.rows} rows"
            )
        if self._share and not self._validation:
            raise ValueError(
                f"validation={self._share} keeps none of {self.rows} rows: give a larger share, or "
                "rows (x, r, y)"
            )
        return Survey(
            self.rows,
            self._x,
            self._r,
            self._sample.rows(),
            self._validation.block(),
            self.checksums,
        )

    def check_room(self, like: Block) -> None:
        """Raise ValueError if so many rows for validation, as are expected, do not fit."""
        seen = self.rows + len(like["y"])
        count = round(self._share * (self._known or seen))
        needed = count * sum(column[:1].nbytes for column in like.values())
        if needed <= self._most_bytes:
            return
        got, advice = f"more than {count:,} of the first {seen:,} rows", ""
        if self._known:
            fits = 0.98 * self._share * self._most_bytes / needed
            got, advice = f"{count:,} rows", f": at most {fits:.2g} fits"
        raise ValueError(
            f"validation={self._share} keeps {got} in memory, {needed / 1e6:,.0f} MB, which is "
            f"more than the {self._most_bytes / 1e6:,.0f} MB there is room for{advice}"
        )


class _Sample:
    """The `size` rows with the smallest keys, in the order in which they were added."""

    def __init__(self, size: int, known: int | None) -> None:
        self._size = size
        self._rows = Rows(min(size + size // 4, known or size))
        self._keys = np.empty(0, np.uint64)
        self._bound = np.uint64(2**64 - 1)

    def add(self, block: Block, drawn: npt.NDArray[np.uint64]) -> None:
        """Consider rows with these keys."""
        small = np.flatnonzero(drawn <= self._bound)
        self._rows.append(selected(block, small))
        self._keys = np.concatenate([self._keys, drawn[small]])
        if len(self._keys) > self._size + self._size // 4:
            self._reduce()

    def rows(self) -> Block:
        """The sample."""
        self._reduce()
        return self._rows.block()

    def _reduce(self) -> None:
        if len(self._keys) > self._size:
            kept = np.sort(np.argpartition(self._keys, self._size - 1)[: self._size])
            self._rows.keep(kept)
            self._keys = self._keys[kept]
            self._bound = self._keys.max()
