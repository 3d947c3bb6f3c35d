"""The audit of a predictor of tables: columns of any kind, directions by name, missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import column_names, number, positive_int, shown, told_once
from pyro_gcm.audit.audit import audit_monotonicity, method_of
from pyro_gcm.audit.concavity import ConcavityAudit, audit_concavity
from pyro_gcm.audit.proof import prove
from pyro_gcm.audit.result import VERDICTS, MonotonicityAudit, TreeProof
from pyro_gcm.audit.rows import MovedRows
from pyro_gcm.audit.search import SEARCHES
from pyro_gcm.audit.trees import read_forest

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Pairs that are searched beside a proof for all rows, for what is around the trees.
_PROVED_PAIRS = 3_000


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

    Of a boosting model of LightGBM, XGBoost, CatBoost, YDF or scikit-learn (`HistGradientBoosting`)
    the trees are read, too: they are constant between the values of their splits, so that `proof`
    of the audit holds for every value. Where it holds for all rows, at most 3,000 pairs are
    searched, for the code around the trees, and by default without "gradient".

    :param predictor: an estimator of scikit-learn, a Pipeline, or anything with `predict_proba`, of
        which the second of two columns is audited, or the event of a `GCMClassifier`, or `predict`,
        of one table; a function of a table; or a file that `export` wrote of an estimator: its
        path, ending in .onnx, or an `onnxruntime.InferenceSession` of it.
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

    if hasattr(predictor, "get_modelmeta") or str(predictor).endswith(".onnx"):
        from pyro_gcm.io.onnx_file import OnnxFile

        predictor = OnnxFile(predictor)
    as_read = getattr(predictor, "as_read", None)  # of the estimators of this package
    table = MovedRows(X if as_read is None else as_read(X), predictor, directions)
    predict = _prediction(predictor)
    proof = _proof(predictor, predict, table, options)
    if proof is not None and proof.verdict == VERDICTS[0]:
        pairs = min(positive_int("pairs", options.get("pairs", _PROVED_PAIRS)), _PROVED_PAIRS)
        options = {"searches": SEARCHES[:2], **options, "pairs": pairs}
    function = table.function(predict)
    values = pd.DataFrame(table.values, columns=table.names)
    given: Any = {"dtype": "float64", **options}
    audit = audit_monotonicity(function, table.rows, values, increasing=table.signs, **given)
    worst, event = audit.witness, getattr(predictor, "event", "")
    if hasattr(predictor, "predict_proba") and hasattr(predictor, "classes_"):
        column = _event_column(predictor)
        event = str(predictor.classes_[1 if column is None else column])
    witness = worst and replace(worst, x=worst.x[:0])
    return replace(audit, x_names=(), witness=witness, event=event, proof=proof)


def _proof(
    predictor: Any, predict: Any, table: MovedRows, options: AuditOptions
) -> TreeProof | None:
    """What the trees of a boosting model prove; None of other predictors."""
    tolerance, progress = options.get("tolerance"), options.get("progress", True)
    if tolerance is not None:
        tolerance = number("tolerance", tolerance, 0.0)
    try:
        forest = read_forest(predictor, [*table.frame.columns])
        return None if forest is None else prove(forest, predict, table, tolerance, progress)
    except ValueError as error:  # `Unreadable`, or of a column that is not read as numbers
        return TreeProof(VERDICTS[-1], reason=str(error))


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
    table = MovedRows(read, predictor, [int(at in places) for at in range(count)])
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
