"""Rows of a table whose constrained columns move: columns of any kind, directions by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.audit.pairs import Array


class MovedRows:
    """A table whose constrained columns are numbers beside it.

    `given` [n, m] has the numbers, `missing` where there are none, and `values` the median there.
    """

    def __init__(self, X: Any, predictor: Any, directions: Any) -> None:
        import pandas as pd

        from pyro_gcm.data.frames import as_frame
        from pyro_gcm.data.tables import signs_of

        self.frame, self.dtype = as_frame(X), None
        self.labels = X.columns if isinstance(X, pd.DataFrame) else None
        if self.frame is None:
            array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
            self.dtype = np.result_type(array.dtype, np.float64)
            self.frame = as_frame(pd.DataFrame(array))
        columns = list(self.frame.columns)
        if directions is None:
            directions = _directions_of(predictor, columns)
        signs = signs_of("directions", directions, len(columns), columns)
        if not any(signs):
            raise ValueError("directions must have +1 or -1 for one column at least, got only 0")
        constrained = {name: sign for name, sign in zip(columns, signs, strict=True) if sign}
        self.names, self.signs = [*constrained], [*constrained.values()]
        self._read()
        if not any(len(np.unique(v[~np.isnan(v)])) > 1 for v in self.given.T):
            raise ValueError(
                f"X must have two values at least in one of the constrained columns {self.names}"
            )

    def of(self, names: list[str]) -> MovedRows:
        """The same table, in which other columns move."""
        other = copy(self)
        other.names = names
        other._read()
        return other

    def _read(self) -> None:
        self.levels: list[Sequence[Any] | None] = []
        self.given = np.stack([self._numbers(name) for name in self.names], 1)
        self.missing = np.isnan(self.given)
        present = [v[~np.isnan(v)] for v in self.given.T]
        medians = [np.median(v) if len(v) else 0.0 for v in present]
        self.values = np.where(self.missing, medians, self.given)

    @property
    def rows(self) -> Array:
        """The number of each row, [n, 1]."""
        return np.arange(len(self.values), dtype=np.float64)[:, None]

    def function(self, predict: Any) -> Any:
        """What predicts rows, by `rows` and `values`."""
        return lambda x, r: predict(self.with_values(x[:, 0].astype(np.int64), r))

    def _numbers(self, name: str) -> Array:
        """A column as numbers, NaN where missing; positions of levels of an ordered category."""
        from pyro_gcm.data.tables import read_table

        # Alone: a predictor may take what no estimator of this package takes in other columns.
        column = read_table(self.frame.select(name).to_native())[0]
        self.levels.append(column.levels)
        if column.numbers is not None:
            return column.numbers
        if column.levels is None:
            raise ValueError(
                f"{column.label} of X must have numbers or categories with an order, got text or "
                f"categories, such as {next(filter(None, column.as_labels()))!r}"
            )
        position = {level: float(number) for number, level in enumerate(column.levels)}
        return np.array([position.get(value, np.nan) for value in column.as_labels()])

    def with_values(self, rows: npt.NDArray[np.int64], values: Array) -> Any:
        """The table with these rows and these values of its constrained columns."""
        values = np.where(self.missing[rows], np.nan, values)
        import narwhals as nw

        frame, series = self.frame[rows.tolist()], []
        backend = nw.get_native_namespace(frame)
        for name, levels, column in zip(self.names, self.levels, values.T, strict=True):
            entries: Any = column
            dtype: Any = nw.Float64
            if levels is not None:
                dtype, last = self.frame.get_column(name).dtype, len(levels) - 1
                entries = [
                    None if np.isnan(v) else levels[min(max(round(v), 0), last)] for v in column
                ]
            series.append(nw.new_series(name, entries, dtype, backend=backend))
        table = frame.with_columns(*series).to_native()
        if self.dtype is not None:
            return table.to_numpy(self.dtype)
        return table if self.labels is None else table.set_axis(self.labels, axis=1)


def _directions_of(predictor: Any, columns: list[str]) -> Any:
    """Those of a predictor, by name where X has the names of the columns of its training rows."""
    directions = getattr(predictor, "directions_", getattr(predictor, "monotonic_cst", None))
    if directions is None:
        raise ValueError("directions must be given: the predictor has no monotonic_cst")
    names = getattr(predictor, "feature_names_in_", None)
    if names is None or isinstance(directions, Mapping) or set(names) - set(columns):
        return directions
    return dict(zip(names, directions, strict=True))
