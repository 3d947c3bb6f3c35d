"""One pass over all rows, before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pyro_gcm._utils.standardizer import Moments
from pyro_gcm.streams.blocks import Block, Rows, between, selected
from pyro_gcm.streams.draws import held_out, keys
from pyro_gcm.streams.sources import Source


@dataclass(frozen=True)
class Survey:
    """The findings of one pass over all rows.

    :param rows: the number of rows, with those for validation.
    :param x: moments of the columns of x, of the training rows; `r`: of r.
    :param sample: training rows, in the order of the data: all, or a random choice of them.
    :param validation: the rows for validation, in the order of the data; there may be none.
    """

    rows: int
    x: Moments
    r: Moments
    sample: Block
    validation: Block


def survey(
    source: Source,
    *,
    seed: int,
    share: float,
    sample_rows: int,
    check: Callable[[Block, int], None],
    progress: bool,
) -> Survey:
    """Read all rows once. Which rows are drawn depends on the seed and on their numbers alone.

    :param seed: of the choice of the rows for validation and of the sample.
    :param share: of the rows that are for validation, from 0 to below 1.
    :param sample_rows: most rows of the sample.
    :param check: called with each block and the number of its first row; raises an error for
        values that are not as they have to be.
    :param progress: whether to show a bar.
    :raises ValueError: if the rows for validation need more than a quarter of the memory of the
        source, or if there are none, or none to train on; and whatever `check` raises.
    """
    from tqdm.auto import tqdm

    count, none = 0, Moments.of(torch.empty(0, 1))
    of_x, of_r, sample, aside = none, none, _Sample(sample_rows), Rows(1)
    shown = {"desc": "data", "unit": " rows", "unit_scale": True, "disable": not progress}
    with tqdm(total=source.rows, **shown) as bar:
        for shard in range(len(source.shards or [0])):
            for block in source.read(shard):
                check(block, count)
                numbers = count, count + len(block["y"])
                drawn, validates = keys(seed, "sample", *numbers), held_out(seed, share, *numbers)
                if validates.any():
                    aside.append(selected(block, np.flatnonzero(validates)))
                    block = selected(block, np.flatnonzero(~validates))
                    drawn = drawn[~validates]
                if 4 * len(aside) * sum(c[:1].nbytes for c in block.values()) > source.memory:
                    raise ValueError(
                        f"validation={share} keeps more rows than fit into a quarter of memory, "
                        f"{source.memory:,} bytes: give a smaller share, or rows (x, r, y)"
                    )
                of_x, of_r = (
                    of_x.merged(Moments.of(block["x"])),
                    of_r.merged(Moments.of(block["r"])),
                )
                sample.add(block, drawn)
                bar.update(numbers[1] - count)
                count = numbers[1]
    if count == len(aside):
        raise ValueError(f"data has no rows to train on, got {share} of {count} for validation")
    if share and not aside:
        raise ValueError(f"validation={share} keeps none of {count} rows: give a larger share")
    found = sample.rows()
    return Survey(count, of_x, of_r, found, aside.block() if aside else between(found, 0, 0))


class _Sample:
    """The `size` rows with the smallest keys, in the order in which they were added."""

    def __init__(self, size: int) -> None:
        self._size, self._rows = size, Rows(1)
        self._keys: npt.NDArray[np.uint64] = np.empty(0, np.uint64)

    def add(self, block: Block, drawn: npt.NDArray[np.uint64]) -> None:
        """Consider rows with these keys."""
        self._rows.append(block)
        self._keys = np.concatenate([self._keys, drawn])
        if len(self._keys) > 2 * self._size:
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
