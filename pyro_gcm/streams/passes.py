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
        count, none = 0, Moments.of(torch.empty(0, 1))
        self.x, self.r, sample, aside = none, none, _Rows(1), _Rows(1)
        shown = {"desc": "data", "unit": " rows", "unit_scale": True, "disable": not progress}
        with tqdm(total=source.rows, **shown) as bar:
            for block in chain.from_iterable(map(source.read, range(len(source.shards or [0])))):
                check(block, count)
                numbers = count, count + len(block["y"])
                drawn, validates = keys(seed, "sample", *numbers), held_out(seed, share, *numbers)
                if validates.any():
                    aside.append(_selected(block, validates))
                    block, drawn = _selected(block, ~validates), drawn[~validates]
                if 4 * aside.count * sum(c[:1].nbytes for c in block.values()) > source.memory:
                    raise ValueError(
                        f"validation={share} keeps more rows than fit into a quarter of memory, "
                        f"{source.memory:,} bytes: give a smaller share, or rows (x, r, y)"
                    )
                self.x = self.x.merged(Moments.of(block["x"]))
                self.r = self.r.merged(Moments.of(block["r"]))
                sample.append({**block, "key": torch.from_numpy(drawn.view(np.int64))})
                if sample.count > 2 * sample_rows:
                    _reduce(sample, sample_rows)
                bar.update(numbers[1] - count)
                count = numbers[1]
        self.rows = count - aside.count
        if not self.rows:
            raise ValueError(f"data has no rows to train on, got {share} of {count} for validation")
        if share and not aside.count:
            raise ValueError(f"validation={share} keeps none of {count} rows: give a larger share")
        _reduce(sample, sample_rows)
        self.sample = sample.block()
        del self.sample["key"]
        self.validation = aside.block() if aside.count else between(self.sample, 0, 0)
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
        window, held, left = 0, _Rows(self._window), self.rows
        for block in self._training_blocks(number):
            while len(block["y"]):
                room = min(self._window, left) - held.count
                held.append(between(block, 0, room))
                block = between(block, room, len(block["y"]))
                if held.count == min(self._window, left):
                    yield from self._batches(held.block(), f"window {number} {window}")
                    left -= held.count
                    window += 1
                    held.count = 0

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
                yield _selected(block, ~validates) if validates.any() else block
            if row != last:
                raise ValueError("data must have the rows that it had before, got another number")


class _Rows:
    """Rows in memory of their own, which is filled block by block.

    A list of blocks would be simpler, and would leave memory in freed pieces (measured: 20 to 30 MB
    beside 160). Memory that is not filled yet takes no room in practice.

    :param capacity: rows for which there is room at first.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.count = capacity, 0
        self.held: Block = {}

    def append(self, block: Block) -> None:
        """Copy the rows of a block to the end."""
        first, last = self.count, self.count + len(block["y"])
        if last > self.capacity:
            self.capacity = max(last, 2 * self.capacity)
        for name, column in block.items():
            held = self.held.get(name, column[:0])
            if len(held) < self.capacity:
                self.held[name] = column.new_empty((self.capacity, *column.shape[1:]))
                self.held[name][:first] = held[:first]
            self.held[name][first:last] = column
        self.count = last

    def block(self) -> Block:
        """The rows, not copies."""
        return between(self.held, 0, self.count)


def _reduce(sample: _Rows, size: int) -> None:
    """Keep at most `size` rows, those with the smallest keys, in their order."""
    if sample.count > size:
        drawn = sample.block()["key"].numpy().view(np.uint64)
        kept = np.sort(np.argpartition(drawn, size - 1)[:size])
        for name, column in sample.held.items():
            sample.held[name][:size] = column[torch.from_numpy(kept)]
        sample.count = size


def _selected(block: Block, rows: npt.NDArray[np.bool_]) -> Block:
    """Copies of some rows of a block."""
    index = torch.from_numpy(np.flatnonzero(rows))
    return {name: column.index_select(0, index) for name, column in block.items()}
