"""Batches of all training rows, shuffled, of which only a window is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pyro_gcm.streams.blocks import Block, Rows, between, selected
from pyro_gcm.streams.draws import held_out, keys, seed_for, training_count
from pyro_gcm.streams.sources import Source


class ShuffledRows:
    """The training rows of a source in another random order in each epoch.

    The shards are read in a random order into windows of rows, and each window is shuffled: rows
    that are far apart in a shard do not meet in a batch, nor do those of shards that are read at
    different times. In memory are a window and a block.

    :param source: of the rows.
    :param rows: the number of rows of the source, with those for validation.
    :param seed: of the orders, and of the choice of the rows for validation by `survey`.
    :param batch_size: rows of each batch but the last one of an epoch.
    :param window: rows that are shuffled together, made a multiple of `batch_size`.
    :param share: of the rows that are for validation, as in `survey`.
    :param device: where the batches are put.

    Attributes: `rows`, the number of training rows; `steps`, the number of batches of an epoch.
    """

    def __init__(
        self,
        source: Source,
        rows: int,
        *,
        seed: int,
        batch_size: int,
        window: int,
        share: float,
        device: torch.device | str = "cpu",
    ) -> None:
        self._source, self._seed, self._share, self.device = source, seed, share, device
        self._bounds = [0, *np.cumsum(source.shards or [rows]).tolist()]
        self.rows = sum(training_count(seed, share, *bounds) for bounds in pairwise(self._bounds))
        self.steps = -(-self.rows // batch_size)
        self._batch_size = batch_size
        self._window = min(-(-window // batch_size), self.steps) * batch_size
        self._last = torch.empty(0)  # numbers of the rows of the last batch

    def epoch(self, number: int) -> Iterator[list[Tensor]]:
        """The batches [x, r, y] of an epoch, in memory of their own.

        :param number: of the epoch, from 0.
        :raises ValueError: if the source no longer has as many rows as it had.
        """
        window, held, left = 0, Rows(self._window), self.rows
        for block in self._training_blocks(number):
            while len(block["y"]):
                room = min(self._window, left) - len(held)
                held.append(between(block, 0, room))
                block = between(block, room, len(block["y"]))
                if len(held) == min(self._window, left):
                    yield from self._batches(held.block(), f"window {number} {window}")
                    left -= len(held)
                    window += 1
                    held.clear()

    def _batches(self, rows: Block, purpose: str) -> Iterator[list[Tensor]]:
        generator = torch.Generator().manual_seed(seed_for(self._seed, purpose))
        order = torch.randperm(len(rows["y"]), generator=generator)
        for index in order.split(self._batch_size):
            batch = selected(rows, index)
            self._last = batch["row"]
            yield [batch[name].to(self.device) for name in "xry"]

    def state(self) -> None:
        """An empty state: every epoch depends on its number alone."""

    def load(self, state: None) -> None:
        """Accept an empty state: nothing is needed to go on."""

    def origin(self, batch: int) -> list[int]:
        """The numbers of the rows of the last batch in the data, from 0."""
        numbers: list[int] = self._last.tolist()
        return numbers

    def _training_blocks(self, number: int) -> Iterator[Block]:
        """The training rows of an epoch in the order of reading, with their numbers."""
        shards = keys(self._seed, f"shards {number}", 0, len(self._bounds) - 1)
        for shard in np.argsort(shards, kind="stable").tolist():
            row, last = self._bounds[shard : shard + 2]
            for block in self._source.read(shard):
                after = row + len(block["y"])
                block = {**block, "row": torch.arange(row, after)}
                validates = held_out(self._seed, self._share, row, after)
                row = after
                if row > last:
                    break
                yield selected(block, np.flatnonzero(~validates)) if validates.any() else block
            if row != last:
                raise ValueError("data must have the rows that it had before, got another number")
