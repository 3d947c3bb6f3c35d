"""One pass over all rows, before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from pyro_gcm.streams.checksum import Checksum
from pyro_gcm.streams.keys import training_count, training_rows
from pyro_gcm.streams.moments import Moments, moments
from pyro_gcm.streams.rows import Rows, gathered, selected
from pyro_gcm.streams.sample import Sample
from pyro_gcm.streams.source import Block, Source

#: Rows that are looked at together, since each block takes a millisecond.
_LEAST_ROWS = 1 << 12


@dataclass(frozen=True)
class Survey:
    """What one pass over all rows found.

    :param rows: the number of rows, with those for validation.
    :param x: moments of the columns of x, of the training rows.
    :param r: moments of the columns of r, of the training rows.
    :param sample: training rows, in the order of the data: all, or a random choice of them.
    :param validation: the rows for validation, in the order of the data; there may be none.
    :param checksum: a number that tells the rows from others.
    :param checksums: likewise of the rows of each shard.
    """

    rows: int
    x: Moments
    r: Moments
    sample: Block
    validation: Block
    checksum: int
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

    In memory are a sample, the rows for validation and a block.

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

    known = source.rows
    found: _Pass | None = None
    shown = {"desc": "data", "unit": " rows", "unit_scale": True, "disable": not progress}
    with tqdm(total=known, **shown) as bar:
        checksums = []
        for shard in range(len(source.shards or [0])):
            checksum = Checksum()
            for block in gathered(source.read(shard), _LEAST_ROWS):
                if found is None:
                    found = _Pass(block, known, seed, share, sample_rows, most_bytes)
                check(block, found.rows)
                found.add(block)
                checksum.add(block)
                bar.update(len(block["y"]))
            checksums.append(checksum.value)
    if found is None or not found.rows:
        raise ValueError("data has no rows, at least one is needed")
    return found.result(checksums)


class _Pass:
    """What is known of the rows so far."""

    def __init__(
        self,
        like: Block,
        known: int | None,
        seed: int,
        share: float,
        sample_rows: int,
        most_bytes: int,
    ) -> None:
        self.rows = 0
        self._seed, self._share = seed, share
        self._row_bytes = sum(c[:1].nbytes for c in like.values())
        self._most_bytes = most_bytes
        held_out = 0 if known is None else known - training_count(seed, share, 0, known)
        self._check_room(held_out, known)
        self._validation = Rows(like, held_out)
        self._sample = Sample(min(sample_rows, known or sample_rows), seed, like)
        self._x, self._r = moments(like["x"][:0]), moments(like["r"][:0])
        self._checksum = Checksum()

    def add(self, block: Block) -> None:
        last = self.rows + len(block["y"])
        self._checksum.add(block)
        numbers = training_rows(self._seed, self._share, self.rows, last)
        every = len(numbers) == last - self.rows
        train = block if every else selected(block, torch.from_numpy(numbers - self.rows))
        self._x = self._x.merged(moments(train["x"]))
        self._r = self._r.merged(moments(train["r"]))
        self._sample.add(train, numbers)
        if not every:
            others = np.setdiff1d(np.arange(self.rows, last), numbers, assume_unique=True)
            self._check_room(len(self._validation) + len(others), None)
            self._validation.append(selected(block, torch.from_numpy(others - self.rows)))
        self.rows = last

    def result(self, checksums: list[int]) -> Survey:
        if len(self._validation) == self.rows:
            raise ValueError(
                f"validation must leave rows to train on, got {self._share} of {self.rows} rows"
            )
        if self._share and not len(self._validation):
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
            self._checksum.value,
            checksums,
        )

    def _check_room(self, rows: int, known: int | None) -> None:
        needed = rows * self._row_bytes
        if needed <= self._most_bytes:
            return
        got = f"{rows:,} rows" if known else f"more than {rows:,} of the first {self.rows:,} rows"
        fits = 0.98 * self._share * self._most_bytes / needed
        advice = f": at most {fits:.2g} fits" if known else ""
        raise ValueError(
            f"validation={self._share} keeps {got} in memory, {needed / 1e6:,.0f} MB, which is "
            f"more than the {self._most_bytes / 1e6:,.0f} MB there is room for{advice}"
        )
