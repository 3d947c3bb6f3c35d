"""Shapley values: how much each column of a row adds to its prediction.

The value of a set of columns is the mean prediction of the rows of a background that take the row's
values in these columns (interventional values; Lundberg and Lee, NeurIPS 2017). A column's share is
what it adds, averaged over all orders in which columns can take the row's values (Shapley, 1953).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm.estimators.directions import OfRows
from pyro_gcm.estimators.table_encoding import TableEncoding
from pyro_gcm.estimators.targets import Array

#: Columns up to which all sets of them are asked, and rows that are predicted at once.
EXACT, _AT_ONCE = 10, 8192

Rows = tuple[Tensor, Tensor]
Kept = npt.NDArray[np.bool_]


@dataclass
class Game:
    """Predictions of one row of which some columns have the values of a background's rows.

    :param of_rows: predictions [n] of rows (x, r) of the model.
    :param encoding: of the d columns, which says where x and r have them.
    :param row: (x, r) of one row, and `background`: of m rows.
    """

    of_rows: OfRows
    encoding: TableEncoding
    row: Rows
    background: Rows

    def predicted(self, kept: Kept, others: npt.NDArray[np.int64]) -> Array:
        """Predictions [n] with the columns `kept`, [n, d], and those of the rows `others`, [n]."""
        widths = [code.width for code in self.encoding.columns]
        # The column of x or r that stands where there is none is the same in all rows.
        owners = np.repeat(range(len(widths)), widths).tolist(), self.encoding.revenues
        pairs = list(zip(owners, self.row, self.background, strict=True))
        found = []
        for start in range(0, len(kept), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            own, others_of = torch.from_numpy(kept[rows]), torch.from_numpy(others[rows])
            mixed = [
                torch.where(own[:, owner or [0]], row, background[others_of])
                for owner, row, background in pairs
            ]
            found.append(self.of_rows(mixed[0], mixed[1]))
        return np.concatenate(found)

    def exact(self) -> Array:
        """The values of all columns, [d], from predictions of all 2^d sets of columns."""
        columns, rows = len(self.encoding.columns), len(self.background[0])
        sets = np.arange(2**columns)
        kept = (sets[:, None] >> np.arange(columns)) % 2 == 1
        all_rows = np.tile(np.arange(rows), len(sets))
        value = self.predicted(kept.repeat(rows, 0), all_rows).reshape(-1, rows).mean(1)
        found, size = np.empty(columns), kept.sum(1)
        for at in range(columns):
            without = sets[~kept[:, at]]
            weight = [1.0 / (columns * math.comb(columns - 1, k)) for k in range(columns)]
            added = value[without | 1 << at] - value[without]
            found[at] = np.array(weight)[size[without]] @ added
        return found

    def sampled(self, orders: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """The values of all columns and their standard errors, [d], from random orders.

        :param orders: of the columns, for each row of the background, 2 or more; each is run
            through forwards and backwards (antithetic; Mitchell et al., JMLR 2022).
        """
        columns, rows = len(self.encoding.columns), len(self.background[0])
        shape = rows, orders, columns
        order = generator.permuted(np.broadcast_to(np.arange(columns), shape), axis=2)
        place = np.stack([order, order[..., ::-1]], 2).argsort(3)  # of each column
        kept = place[..., None, :] < np.arange(columns + 1)[:, None]
        others = np.arange(rows).repeat(orders * 2 * (columns + 1))
        steps = self.predicted(kept.reshape(-1, columns), others).reshape(kept.shape[:-1])
        added = np.take_along_axis(np.diff(steps), place, 3).mean(2)
        error = np.sqrt(added.var(1, ddof=1).mean(0) / (rows * orders))
        return added.mean((0, 1)), error
