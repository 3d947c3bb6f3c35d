"""Batches of all training rows, shuffled, of which only a window is in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm.streams.blocks import Block, Rows, between, checksum, selected
from pyro_gcm.streams.draws import held_out, keys, seed_for, training_count
from pyro_gcm.streams.opening import Source


class ShuffledRows:
    """The training rows of a source in another random order in each epoch.

    The shards are read in a random order into windows of rows, and each window is shuffled: rows
    that are far apart in a shard do not meet in a batch, nor do those of shards that are read at
    different times. In memory are a window and a block.

    :param source: of the rows.
    :param rows: the number of rows of the source, with those for validation.
    :param seed: of the orders, and of the choice of the rows for validation by `survey`.
    :param batch_size: rows of each batch but the last one of an epoch.
    :param buffer_rows: rows of a window, which is made a multiple of `batch_size`.
    :param share: of the rows that are for validation, as in `survey`.
    :param checksums: of the rows of each shard, as in `Survey`, which they must have at each pass.
    :param device: where the batches are put.

    Attributes: `rows`, the number of training rows; `steps`, the number of batches of an epoch;
    `identity`, plain data that the batches depend on, besides the values of the rows.
    """

    def __init__(
        self,
        source: Source,
        rows: int,
        *,
        seed: int,
        batch_size: int,
        buffer_rows: int,
        share: float,
        checksums: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> None:
        self._source, self._seed, self._share = source, seed, share
        self._checksums, self.device = checksums, device
        counts = source.shards or [rows]
        self._bounds = [0, *np.cumsum(counts).tolist()]
        self._counts = [training_count(seed, share, *bounds) for bounds in pairwise(self._bounds)]
        self.rows = sum(self._counts)
        self.steps = -(-self.rows // batch_size)
        self._batch_size = batch_size
        self._window_steps = min(-(-buffer_rows // batch_size), self.steps)
        self._window = self._window_steps * batch_size
        self.identity: dict[str, Any] = {
            **source.identity,
            "rows": rows,
            "shards": zlib.crc32(repr((counts, checksums)).encode()),
            "seed": seed,
            "batch_size": batch_size,
            "buffer_rows": buffer_rows,
            "share": share,
        }

    def epoch(self, number: int) -> Iterator[list[Tensor]]:
        """The batches [x, r, y] of an epoch, in memory of their own.

        :param number: of the epoch, from 0.
        :raises ValueError: if the source no longer has the rows that it had, which is known when a
            shard has been read to its end.
        """
        window, held = 0, Rows(self._window)
        for block in self._training_blocks(number):
            while len(block["y"]):
                room = self._rows_of(window) - len(held)
                held.append(between(block, 0, room))
                block = between(block, room, len(block["y"]))
                if len(held) == self._rows_of(window):
                    for index in self._batches_of(number, window):
                        batch = selected(held.block(), index)
                        yield [batch[name].to(self.device) for name in "xry"]
                    held.clear()
                    window += 1

    def state(self) -> None:
        """An empty state: every epoch depends on its number alone."""
        return

    def load(self, state: None) -> None:
        """Accept an empty state: nothing is needed to go on."""

    def origin(self, number: int, batch: int) -> list[int]:
        """The numbers of the rows of a batch in the data, from 0, in their order in the batch.

        :param number: of the epoch.
        :param batch: of the epoch, from 0.
        """
        window, place = divmod(batch, self._window_steps)
        first, before = window * self._window, 0
        last = first + self._rows_of(window)
        parts: list[npt.NDArray[np.int64]] = []
        for shard in self._order(number):
            after = before + self._counts[shard]
            if before < last and first < after:
                parts.append(
                    self._training_rows(*self._bounds[shard : shard + 2])[
                        max(0, first - before) : last - before
                    ]
                )
            before = after
        index = self._batches_of(number, window)[place]
        found: list[int] = np.concatenate(parts)[index.numpy()].tolist()
        return found

    def _rows_of(self, window: int) -> int:
        return min(self._window, self.rows - window * self._window)

    def _order(self, number: int) -> list[int]:
        """The shards in the order of an epoch."""
        shards = keys(self._seed, f"shards {number}", 0, len(self._counts))
        order: list[int] = np.argsort(shards, kind="stable").tolist()
        return order

    def _training_rows(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """The numbers of the rows first..last - 1 that are not held out."""
        return first + np.flatnonzero(~held_out(self._seed, self._share, first, last))

    def _batches_of(self, number: int, window: int) -> tuple[Tensor, ...]:
        """The places in a window of the rows of each of its batches."""
        generator = torch.Generator().manual_seed(seed_for(self._seed, f"window {number} {window}"))
        order = torch.randperm(self._rows_of(window), generator=generator)
        return order.split(self._batch_size)

    def _training_blocks(self, number: int) -> Iterator[Block]:
        """The training rows of an epoch in the order of reading."""
        for shard in self._order(number):
            row, last = self._bounds[shard : shard + 2]
            found = 0
            for block in self._source.read(shard):
                found = checksum(block, found)
                rows = len(block["y"])
                if row + rows > last:
                    row += rows
                    break
                train = self._training_rows(row, row + rows)
                if len(train) < rows:
                    block = selected(block, train - row)
                row += rows
                yield between(block, 0, len(train))
            if row != last or found != self._checksums[shard]:
                first_row = self._bounds[shard]
                raise ValueError(
                    f"data must have the rows that it had before, got others in the place of the "
                    f"{last - first_row} from {self._source.place(first_row)} on: do not change it "
                    "during training"
                )
