"""The audit of a predictor of tables: columns of any kind, directions by name, missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import column_names, shown, told_once
from pyro_gcm.audit.audit import audit_monotonicity, method_of
from pyro_gcm.audit.concavity import ConcavityAudit, audit_concavity
from pyro_gcm.audit.pairs import Array
from pyro_gcm.audit.result import MonotonicityAudit

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AuditOptions(TypedDict, total=False):
    """Options of `audit_monotonicity` that `audit_table` hands on."""

    pairs: int
    searches: Sequence[str]
    margin: float
    tolerance: float | None
    dtype: str | None
    batch_size: int
    seed: int
    progress: bool


@one_thread()
@told_once()  # of rows that are predicted in many parts
def audit_table(
    predictor: Any,
    X: Any,
    directions: Mapping[str, int] | Sequence[int] | None = None,
    **options: Unpack[AuditOptions],
) -> MonotonicityAudit:
    """Search for pairs of rows between which a prediction moves against a declared direction.

    A pair differs from a row of X in constrained columns alone. A value that is missing stays
    missing: nothing is promised between a missing value and another one.

    :param predictor: an estimator of scikit-learn, a Pipeline, or anything with `predict_proba`, of
        which the second of two columns is audited, or the event of a `GCMClassifier`, or `predict`,
        of one table; or a function of a table.
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
    import pandas as pd

    as_read = getattr(predictor, "as_read", None)  # of the estimators of this package
    table = _Table(X if as_read is None else as_read(X), predictor, directions)
    function = table.function(_prediction(predictor))
    values = pd.DataFrame(table.values, columns=table.names)
    given: Any = {"dtype": "float64", **options}
    audit = audit_monotonicity(function, table.rows, values, increasing=table.signs, **given)
    worst, event = audit.witness, ""
    if hasattr(predictor, "predict_proba") and hasattr(predictor, "classes_"):
        column = _event_column(predictor)
        event = str(predictor.classes_[1 if column is None else column])
    witness = worst and replace(worst, x=worst.x[:0])
    return replace(audit, x_names=(), witness=witness, event=event)


@one_thread()
@told_once()
def audit_table_concavity(
    predictor: Any,
    X: Any,
    columns: Sequence[str | int] | None = None,
    *,
    triples: int = 20_000,
    tolerance: float = 2.0**-20,
    batch_size: int = 4096,
    seed: int = 0,
) -> ConcavityAudit:
    """Search a predictor of tables for columns in which a prediction is not concave.

    :param predictor: as `audit_table` takes it.
    :param X: a table [n, columns]; the columns that are searched have numbers.
    :param columns: their names, or indices; by default `concave` of the predictor.
    :param triples, tolerance, batch_size, seed: as in `audit_concavity`. The tolerance is that of a
        predictor that computes in float32, as the estimators do.
    :returns: the audit, with the name of the column of the worst triple.
    :raises TypeError: for a predictor that cannot be called.
    :raises ValueError: for columns that X does not have, or that have no numbers.

    >>> X = np.linspace(0.0, 1.0, 60).reshape(20, 3)
    >>> audit_table_concavity(lambda X: np.sqrt(X[:, 0]), X, [0]).passed
    True
    """
    wanted: Any = getattr(predictor, "concave", None) if columns is None else columns
    as_read = getattr(predictor, "as_read", None)
    read = X if as_read is None else as_read(X)
    count, known = np.shape(read)[1], column_names(read) or []
    named = [wanted] if isinstance(wanted, str) else np.asarray(wanted, object).ravel().tolist()
    places = [known.index(column) if column in known else column for column in named]
    if not {*places} <= {*range(count)}:
        raise ValueError(
            f"columns must be names or indices of columns of X, {known or count}, or those of "
            f"concave of the predictor, got {shown(wanted)}"
        )
    table = _Table(read, predictor, [int(at in places) for at in range(count)])
    function, every = table.function(_prediction(predictor)), [*range(len(table.names))]
    options: Any = {"triples": triples, "tolerance": tolerance, "dtype": "float64"}
    options |= {"batch_size": batch_size, "seed": seed}
    found = audit_concavity(function, table.rows, table.values, every, **options)
    return found._replace(column=table.names[int(found.column)])


def _prediction(predictor: Any) -> Any:
    """A function of a table to one number a row."""
    if callable(getattr(predictor, "predict_proba", None)):

        def probability(table: Any) -> Any:
            classes = np.asarray(predictor.predict_proba(table))
            column = _event_column(predictor)
            if classes.ndim != 2 or (column is None and classes.shape[1] != 2):
                raise ValueError(
                    f"predict_proba must return two columns, got shape {classes.shape}: pass a "
                    "function of a table that selects the probability to be audited"
                )
            return classes[:, 1 if column is None else column]

        return probability
    return method_of(predictor)


def _event_column(predictor: Any) -> int | None:
    """The column of `predict_proba` that has the event; None of others than a `GCMClassifier`.

    That may be by itself, at the end of a Pipeline, or the best one of a search.
    """
    steps = getattr(predictor, "steps", None)
    inner = steps[-1][-1] if steps else getattr(predictor, "best_estimator_", None)
    return getattr(predictor, "event_column_", None) if inner is None else _event_column(inner)


class _Table:
    """A table whose constrained columns are numbers beside it.

    `values` [n, m] has the numbers, with the median in the place of a missing one.
    """

    def __init__(self, X: Any, predictor: Any, directions: Any) -> None:
        import pandas as pd

        from pyro_gcm.data.tables import as_frame, signs_of

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
        self.levels: list[Sequence[Any] | None] = []
        values = np.stack([self._numbers(name) for name in self.names], 1)
        self.missing = np.isnan(values)
        present = [v[~np.isnan(v)] for v in values.T]
        if not any(len(np.unique(v)) > 1 for v in present):
            raise ValueError(
                f"X must have two values at least in one of the constrained columns {self.names}"
            )
        medians = [np.median(v) if len(v) else 0.0 for v in present]
        self.values = np.where(self.missing, medians, values)

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
