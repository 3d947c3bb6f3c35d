"""Revenues of a surface, among which rows and values may repeat."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_gcm.distributions.event_planes import planes


class DistinctRevenues:
    """Mapped revenues, every row of them once.

    :param mapped: what the costs are compared with, [R, n, (G,) K]: by the one map (n = 1), or by
        the map of each draw.
    :param given: the revenues themselves, [R, r_dim].
    """

    def __init__(self, mapped: Tensor, given: Tensor) -> None:
        self.rows, self.given = mapped, given
        one_map = mapped.shape[1] == 1
        #: Which of `rows` each given row is, [R]; None where no row repeats.
        self.row: Tensor | None = None
        every = self._columns().transpose(1, 2).flatten(0, 1)  # [(G) K n, R]
        found = [column.unique(return_inverse=True) for column in every]
        row = found[0][1]
        for values, number in found[1:]:
            row = (row * len(values) + number).unique(return_inverse=True)[1]
        count = int(row.max()) + 1
        if count < len(row):
            place = torch.arange(len(row), device=row.device)
            first = row.new_empty(count).scatter_(0, row, place)
            self.rows, self.given, self.row = mapped[first], given[first], row
            found = [(values, number[first]) for values, number in found]
        #: The distinct values [V] of a coordinate and which of them each row has, [D], where that
        #: is worth a table and there is one map.
        self.repeated = {
            k: column for k, column in enumerate(found) if one_map and 2 * len(column[0]) <= count
        }
        #: The values of each coordinate, [(G) K, D, n].
        self.columns = self._columns()

    def _columns(self) -> Tensor:
        return planes(self.rows, self.rows.shape[2:])

    def __len__(self) -> int:
        return len(self.rows)

    def in_order(self, values: Tensor) -> Tensor:
        """Values [D, ...] for the rows that were given, [R, ...]."""
        return values if self.row is None else values.index_select(0, self.row)
