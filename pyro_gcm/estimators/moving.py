"""Predictions of an estimator for given rows as one of their constrained columns moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm._utils.columns import Column
from pyro_gcm._utils.validation import shown
from pyro_gcm.estimators.encoding import ColumnEncoding, TableEncoding
from pyro_gcm.estimators.thresholds import OfColumn, OfRows

Array = npt.NDArray[np.float64]


def index_of(feature: Any, encoding: TableEncoding, names: Sequence[str] | None) -> int:
    """The index of a constrained column of numbers, by its name or its index.

    :raises ValueError: for another one.
    """
    known = [] if names is None else list(names)
    constrained = [known[j] if known else j for j in encoding.revenues]
    named = isinstance(feature, str | tuple) and str(feature) in known
    at: Any = known.index(str(feature)) if named else feature
    if not isinstance(at, Integral) or isinstance(at, bool) or at not in encoding.revenues:
        raise ValueError(
            f"feature must be a column with a direction in monotonic_cst, one of {constrained}, "
            f"got {shown(feature)}"
        )
    return int(at)


class MovingColumn:
    """Rows of a table, of which one constrained column moves.

    :param encoding: of the table; `columns`: its columns; `index`: of the one that moves.

    Attributes: `code`, how the column is read; `values`, those it has [n].
    """

    def __init__(self, encoding: TableEncoding, columns: Sequence[Column], index: int) -> None:
        self.code: ColumnEncoding = encoding.columns[index]
        self.values: Array = self.code.numbers(columns[index])
        self.place = encoding.revenues.index(index)
        # A value takes the place of one that is missing.
        stand_in = Column(self.code.label, np.full(len(self.values), self.code.loc))
        if self.code.kind != "number":
            if not self.code.levels:
                raise ValueError(
                    f"{self.code.label} has a type without levels, so none can be found"
                )
            labels = np.full(len(self.values), self.code.levels[0], dtype=object)
            stand_in = replace(stand_in, numbers=None, labels=labels)
        self.x, self.r = encoding([*columns[:index], stand_in, *columns[index + 1 :]])

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, values: Array, repeats: int = 1) -> tuple[Tensor, Tensor]:
        """x and r with these values in place, [repeats * n], the rows one after the other."""
        r = self.r.repeat(repeats, 1)
        r[:, self.place] = torch.from_numpy(self.code.scaled(values))
        return self.x.repeat(repeats, 1), r

    def function(self, predict: OfRows, repeats: int = 1) -> OfColumn:
        """`predict` of x and r as a function of the values."""
        return lambda values: predict(*self.rows(values, repeats))
