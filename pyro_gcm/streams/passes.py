"""Passes over all rows of a source: one before training, and one in every epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm._utils.standardizer import Moments
from pyro_gcm.streams.sources import Block, Source, between


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


class ShuffledRows:
    """The rows of a source: read once, and then for training in another random order each epoch.

    Which rows are drawn for validation, and for the sample, depends on the seed and on their
    numbers alone. In an epoch the shards are read in a random order into windows of rows, and each
    window is shuffled: rows that are far apart in a shard do not meet in a batch, nor do those of
    shards that are read at different times. In memory are a window and a block.

    :param source: of the rows.
    :param seed: of the orders, and of the choice of the rows for validation and of the sample.
    :param share: of the rows that are for validation, from 0 to below 1.
    :param sample_rows: most rows of the sample.
    :param check: called with each block and the number of its first row; raises an error for
        values that are not as they have to be.
    :param progress: whether to show a bar.
    :raises ValueError: if the rows for validation need more than a quarter of the memory of the
        source, or if there are none, or none to train on; and whatever `check` raises.

    Attributes: `rows`, the number of training rows; `x` and `r`, moments of their columns;
    `sample`, training rows in the order of the data, all or a random choice of them;
    `validation`, the rows for validation, likewise; `steps`, the number of batches of an epoch;
    `order`, None: every epoch depends on its number alone.
    """

    order = None

    def __init__(
        self,
        source: Source,
        *,
        seed: int,
        share: float,
        sample_rows: int,
        check: Callable[[Block, int], None],
        progress: bool,
    ) -> None:
        from tqdm.auto import tqdm

        self._source, self._seed, self._share = source, seed, share
        none = Moments.of(torch.empty(0, 1))
        self.x, self.r, count, outside, collected = none, none, 0, 0, 0
        sample, aside = list[Block](), list[Block]()
        shown = {"desc": "data", "unit": " rows", "unit_scale": True, "disable": not progress}
        with tqdm(total=source.rows, **shown) as bar:
            for block in chain.from_iterable(map(source.read, range(len(source.shards or [0])))):
                check(block, count)
                numbers = count, count + len(block["y"])
                drawn, validates = keys(seed, "sample", *numbers), held_out(seed, share, *numbers)
                if validates.any():
                    aside.append(_selected(block, np.flatnonzero(validates)))
                    kept = np.flatnonzero(~validates)
                    block, drawn = _selected(block, kept), drawn[kept]
                    outside += len(aside[-1]["y"])
                if 4 * outside * sum(c[:1].nbytes for c in block.values()) > source.memory:
                    raise ValueError(
                        f"validation={share} keeps more rows than fit into a quarter of memory, "
                        f"{source.memory:,} bytes: give a smaller share, or rows (x, r, y)"
                    )
                self.x = self.x.merged(Moments.of(block["x"]))
                self.r = self.r.merged(Moments.of(block["r"]))
                sample.append({**block, "key": torch.from_numpy(drawn.view(np.int64))})
                collected += len(block["y"])
                if collected > 2 * sample_rows:
                    sample, collected = [_reduced(sample, sample_rows)], sample_rows
                bar.update(numbers[1] - count)
                count = numbers[1]
        self.rows = count - outside
        if not self.rows:
            raise ValueError(f"data has no rows to train on, got {share} of {count} for validation")
        if share and not outside:
            raise ValueError(f"validation={share} keeps none of {count} rows: give a larger share")
        self.sample = _reduced(sample, sample_rows)
        del self.sample["key"]
        self.validation = _joined(aside) if outside else between(self.sample, 0, 0)
        self._bounds = [0, *np.cumsum(source.shards or [count]).tolist()]

    def in_batches(self, size: int, window: int, device: Any = "cpu") -> ShuffledRows:
        """The same, for epochs of batches of so many rows, the last one with fewer.

        :param window: rows that are shuffled together, made a multiple of `size`.
        :param device: where the batches are put.
        """
        self._size, self.device, self.steps = size, device, -(-self.rows // size)
        self._window = min(-(-window // size), self.steps) * size
        return self

    def epoch(self, number: int) -> Iterator[list[Tensor]]:
        """The batches [x, r, y] of an epoch, in memory of their own.

        :param number: of the epoch, from 0.
        :raises ValueError: if the source no longer has as many rows as it had.
        """
        window, filled, left = 0, 0, self.rows
        # Memory of a window, in the place of a list of blocks that leaves it in freed pieces.
        held = {n: c.new_empty(self._window, *c.shape[1:]) for n, c in self.sample.items()}
        for block in self._training_blocks(number):
            while len(block["y"]):
                size = min(self._window, left)
                taken = between(block, 0, size - filled)
                block = between(block, size - filled, len(block["y"]))
                for name, column in taken.items():
                    held[name][filled : filled + len(column)] = column
                filled += len(taken["y"])
                if filled == size:
                    yield from self._batches(between(held, 0, size), f"window {number} {window}")
                    window, filled, left = window + 1, 0, left - size

    def _batches(self, rows: Block, purpose: str) -> Iterator[list[Tensor]]:
        generator = torch.Generator().manual_seed(seed_for(self._seed, purpose))
        order = torch.randperm(len(rows["y"]), generator=generator)
        for index in order.split(self._size):
            yield [rows[name].index_select(0, index).to(self.device) for name in "xry"]

    def _training_blocks(self, number: int) -> Iterator[Block]:
        """The training rows of an epoch in the order of reading."""
        shards = keys(self._seed, f"shards {number}", 0, len(self._bounds) - 1)
        for shard in np.argsort(shards, kind="stable").tolist():
            row, last = self._bounds[shard : shard + 2]
            for block in self._source.read(shard):
                after = row + len(block["y"])
                validates = held_out(self._seed, self._share, row, after)
                row = after
                if row > last:
                    break
                yield _selected(block, np.flatnonzero(~validates)) if validates.any() else block
            if row != last:
                raise ValueError("data must have the rows that it had before, got another number")


def _joined(blocks: list[Block]) -> Block:
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def _reduced(blocks: list[Block], size: int) -> Block:
    """At most `size` rows of blocks, those with the smallest keys, in their order."""
    block = _joined(blocks)
    drawn = block["key"].numpy().view(np.uint64)
    return _selected(block, np.sort(drawn.argsort()[:size]))


def _selected(block: Block, rows: npt.NDArray[np.int64]) -> Block:
    """Copies of some rows of a block."""
    index = torch.from_numpy(rows)
    return {name: column.index_select(0, index) for name, column in block.items()}
