"""The audit of a predictor of tables: columns of any kind, directions by name, missing values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import shown, without_tensor
from pyro_gcm.audit.adapters import event_column
from pyro_gcm.audit.audit import audit_monotonicity
from pyro_gcm.audit.result import MonotonicityAudit
from pyro_gcm.data.tables import as_frame, read_table

Array = npt.NDArray[np.float64]


@one_thread()
def audit_table(
    predictor: Any,
    X: Any,
    directions: Mapping[str, int] | Sequence[int] | None = None,
    **options: Any,
) -> MonotonicityAudit:
    """Search for pairs of rows between which a prediction moves against a declared direction.

    A pair differs from a row of X in constrained columns alone. A value that is missing stays
    missing: nothing is promised between a missing value and another one.

    :param predictor: an estimator of scikit-learn, a Pipeline, or anything with `predict_proba`,
        whose second column is audited (the event of a `GCMClassifier`), or `predict`, of one table;
        or a function of a table.
    :param X: a DataFrame (pandas, polars or Arrow) or an array, [n, columns], as the predictor
        takes it. Constrained columns have numbers, booleans, or categories with an order.
    :param directions: +1 or -1 for columns by name, or +1, -1 or 0 for each; by default those of
        the predictor's `monotonic_cst`.
    :param options: of `audit_monotonicity`: pairs, searches, margin, tolerance, batch_size, seed,
        progress.
    :returns: the audit.
    :raises TypeError: for a predictor that cannot be called.
    :raises ValueError: for columns that X does not have, or that cannot be constrained.

    >>> X = np.linspace(0.0, 1.0, 60).reshape(20, 3)
    >>> audit = audit_table(lambda X: X[:, 0] - X[:, 2], X, [1, 0, 1], pairs=600)
    >>> audit.passed
    False
    """
    as_read = getattr(predictor, "as_read", None)  # of the estimators of this package
    table = _Table(X if as_read is None else as_read(X), predictor, directions)
    predict = _prediction(predictor)

    def function(rows: Array, values: Array) -> Any:
        return predict(table.with_values(rows[:, 0].astype(np.int64), values))

    import pandas as pd

    rows = pd.DataFrame({"row": np.arange(table.rows, dtype=np.float64)})
    values = pd.DataFrame(table.values, columns=table.names)
    options = {"increasing": table.signs, "adapter": "call(x, r)", "dtype": "float64", **options}
    return audit_monotonicity(function, rows, values, **options)


def _prediction(predictor: Any) -> Any:
    """A function of a table to one number a row."""
    if callable(getattr(predictor, "predict_proba", None)):

        def probability(table: Any) -> Any:
            found = np.asarray(predictor.predict_proba(table))
            if found.ndim != 2 or found.shape[1] != 2:
                raise ValueError(f"predict_proba must return two columns, got shape {found.shape}")
            return found[:, event_column(predictor)]

        return probability
    if callable(getattr(predictor, "predict", None)):
        return predictor.predict
    if callable(predictor):
        return predictor
    raise TypeError(
        f"predictor must be callable or have a method predict, got {type(predictor).__name__}"
    )


class _Table:
    """A table whose constrained columns are numbers beside it.

    `values` [n, m] has the numbers, with the median in the place of a missing one.
    """

    def __init__(self, X: Any, predictor: Any, directions: Any) -> None:
        import pandas as pd

        self.frame = as_frame(X)
        self.given = X.columns if isinstance(X, pd.DataFrame) else None
        if self.frame is None:
            self.array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
            self.read = read_table(X)
            columns = [str(place) for place in range(len(self.read))]
        else:
            columns = list(self.frame.columns)
        self.rows = len(X) if self.frame is None else len(self.frame)
        if not self.rows:
            raise ValueError("X must have at least one row")
        if directions is None:
            directions = _directions_of(predictor, columns)
        self.places, self.signs = _moving(directions, columns)
        self.names = [columns[place] for place in self.places]
        self.columns = columns
        self.levels: list[list[Any] | None] = []
        read = [self._numbers(place) for place in self.places]
        values = np.stack(read, 1)
        self.missing = np.isnan(values)
        given = [v[~np.isnan(v)] for v in read]
        if not any(len(np.unique(v)) > 1 for v in given):
            raise ValueError(
                f"X must have two values at least in one of the constrained columns {self.names}"
            )
        medians = [np.median(v) if len(v) else 0.0 for v in given]
        self.values = np.where(self.missing, medians, values)

    def _numbers(self, place: int) -> Array:
        """A column as numbers, NaN where missing; positions of levels of an ordered category."""
        if self.frame is None:
            column = self.read[place]
        else:  # a predictor may take what no estimator of this package takes in other columns
            column = read_table(self.frame.select(self.columns[place]).to_native())[0]
        self.levels.append(None if column.levels is None else list(column.levels))
        if column.numbers is not None:
            return column.numbers
        if column.levels is None:
            raise ValueError(
                f"{column.label} of X must have numbers or categories with an order, got text or "
                f"categories, such as {next(filter(None, column.as_labels()))!r}"
            )
        known = {level: float(at) for at, level in enumerate(column.levels)}
        return np.array([known.get(value, np.nan) for value in column.as_labels()])

    def with_values(self, rows: npt.NDArray[np.int64], values: Array) -> Any:
        """The table with these rows and these values of its constrained columns."""
        values = np.where(self.missing[rows], np.nan, values)
        if self.frame is None:
            found = self.array[rows].astype(np.result_type(self.array.dtype, np.float64))
            found[:, self.places] = values
            return found
        import narwhals as nw

        frame, series = self.frame[rows.tolist()], []
        for at, place in enumerate(self.places):
            name, levels = self.columns[place], self.levels[at]
            column: Any = values[:, at]
            dtype: Any = nw.Float64
            if levels is not None:
                dtype, last = self.frame.get_column(name).dtype, len(levels) - 1
                near = [None if np.isnan(v) else min(max(round(v), 0), last) for v in column]
                column = [None if v is None else levels[v] for v in near]
            backend = nw.get_native_namespace(frame)
            series.append(nw.new_series(name, column, dtype, backend=backend))
        found = frame.with_columns(*series).to_native()
        return found if self.given is None else found.set_axis(self.given, axis=1)


def _directions_of(predictor: Any, columns: list[str]) -> Any:
    """Those of a predictor, by name where X has the names of the columns of its training rows."""
    found = getattr(predictor, "monotonic_cst", None)
    names = getattr(predictor, "feature_names_in_", None)
    if found is None or names is None or isinstance(found, Mapping) or set(names) - set(columns):
        return found
    return dict(zip(names, found, strict=True))


def _moving(directions: Any, columns: list[str]) -> tuple[list[int], list[int]]:
    """Positions of the constrained columns, and their directions."""
    if directions is None:
        raise ValueError("directions must be given: the predictor has no monotonic_cst")
    if isinstance(directions, Mapping):
        directions = {str(name): entry for name, entry in directions.items()}
        unknown = [name for name in directions if name not in columns]
        if unknown:
            raise ValueError(f"directions names {unknown}, X has the columns {columns}")
        entries = [directions.get(name, 0) for name in columns]
    elif isinstance(directions, Iterable):
        entries = list(without_tensor(directions))
    else:
        raise TypeError(f"directions must be a mapping or a sequence, got {shown(directions)}")
    if len(entries) != len(columns) or any(entry not in (-1, 0, 1) for entry in entries):
        raise ValueError(
            f"directions must have -1, 0 or 1 for each of the {len(columns)} columns, got {entries}"
        )
    places = [place for place, entry in enumerate(entries) if entry]
    if not places:
        raise ValueError("directions must have +1 or -1 for one column at least, got only 0")
    return places, [int(entries[place]) for place in places]
