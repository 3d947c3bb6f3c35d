"""Which directions of columns the data speak for, and what each would cost in log score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm._utils.validation import positive_int, seed_of
from pyro_gcm.data.tables import Column, read_table

Array = npt.NDArray[np.float64]

#: Probability that some column's costs are called significant though none is, at most.
LEVEL = 0.05
#: A direction whose cost is below this share of the other one's holds but for exceptions.
MOSTLY = 0.1
#: Levels of a column that the booster tells apart: it has bins for 255 and missing values.
_LEVELS = 254


def suggest_directions(
    X: Any,
    y: Any,
    *,
    columns: Sequence[str] | None = None,
    folds: int = 5,
    max_rows: int = 20_000,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """Return what it costs to let the prediction only rise, or only fall, in each numeric column.

    Boosted trees (scikit-learn's `HistGradientBoosting*`) are cross-validated without a constraint,
    and again for each column with the constraint that it has a direction. The cost of a direction
    is the log score that it loses on held-out rows, in nats a row; a negative cost is a gain. That
    of the wrong direction is large where the column matters. The costs are tested together (Holm
    1979, at 5 %), and `evidence` says what they show:

    - "rising" or "falling": only the other direction costs;
    - "mostly rising" or "mostly falling": both do, but this one less than a tenth of the other;
    - "neither": both do, as in a column that first helps and then harms;
    - "little": none does, since the column says little about y that the others do not say.

    It advises and does not decide: a direction is a promise about the meaning of a column with all
    others fixed, which no data prove, and by which a table with few rows gains most.

    :param X: a table of n rows, as `estimators.GCMClassifier.fit` takes it. Columns of text or
        categories are used, and have no direction.
    :param y: two classes, of which the second in sorted order is the event, or numbers, [n].
    :param columns: names of the columns to look at, each of which takes 2 `folds` fits; by default
        all numeric ones.
    :param folds: of the cross-validation.
    :param max_rows: rows to use, at most, drawn at random.
    :param progress: whether to show a bar.
    :returns: a row for each numeric column, by its name: `evidence`; `suggested`, +1, -1 or 0, as
        `monotonic_cst` takes it; `rising`, the cost of that direction, with `rising_low` and
        `rising_high`, the ends of its 95 % interval; and the same of `falling`.
    :raises ValueError: for one class of y, or more than two of text.
    :raises KeyError: for a name in `columns` that no numeric column has.
    :raises TypeError: for columns that are neither numbers, text nor categories.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from pyro_gcm.diagnostics import suggest_directions
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"debt": rng.normal(size=500), "age": rng.normal(size=500)})
    >>> y = X["debt"] - X["age"] ** 2 + rng.normal(size=500)
    >>> suggest_directions(X, y, progress=False)["evidence"].to_dict()
    {'debt': 'rising', 'age': 'neither'}
    """
    from tqdm.auto import tqdm

    folds = positive_int("folds", folds, minimum=2)
    max_rows, seed = positive_int("max_rows", max_rows, minimum=2 * folds), seed_of(seed)
    table, (outcome, is_binary) = read_table(X), _outcome(y)
    rows = len(table[0].is_missing)
    if len(outcome) != rows:
        raise ValueError(f"y must have {rows} entries, one for each row of X, got {len(outcome)}")
    rng = np.random.default_rng(seed)
    kept = rng.permutation(rows)[:max_rows]
    names = table.names or [str(place) for place in range(len(table))]
    inputs = np.stack([_codes(column)[kept] for column in table], 1)
    numeric = {name: place for place, name in enumerate(names) if not _is_category(table[place])}
    places = [numeric[name] for name in (numeric if columns is None else columns)]
    of_fold = _folds(outcome[kept], folds, rng)
    score = _scorer(
        inputs, outcome[kept], of_fold, [_is_category(column) for column in table], is_binary
    )
    none = np.zeros(len(table), int)
    free, costs = score(none), {}
    for place in tqdm(places, desc="columns", disable=not progress):
        for sign in (1, -1):
            costs[place, sign] = free - score(np.where(np.arange(len(table)) == place, sign, none))
    return _table({names[place]: (costs[place, 1], costs[place, -1]) for place in places})


def _outcome(y: Any) -> tuple[Array, bool]:
    """y as numbers, and whether it has two classes, which are 0 and 1 then."""
    values = np.asarray(y)
    if values.ndim != 1 or pd.isna(values).any():
        raise ValueError(f"y must have no missing values and shape [rows], got {values.shape}")
    classes = np.unique(values)
    if len(classes) == 2:
        return (values == classes[1]).astype(float), True
    if len(classes) < 2 or values.dtype.kind not in "iuf":
        raise ValueError(f"y must have two classes or be numbers, got {len(classes)} classes")
    return values.astype(float), False


def _is_category(column: Column) -> bool:
    return column.numbers is None or column.categorical


def _codes(column: Column) -> Array:
    """The numbers of a column, or its most frequent levels as numbers; NaN where one is missing."""
    if not _is_category(column):
        assert column.numbers is not None
        return column.numbers
    labels = pd.Series(column.as_labels())
    places = {label: place for place, label in enumerate(labels.value_counts().index)}
    return labels.map(places).clip(upper=_LEVELS - 1).to_numpy(float)


def _folds(outcome: Array, folds: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """A fold for each row; neighbours in the order of y are in different ones."""
    shuffled = rng.permutation(len(outcome))
    of_fold = np.empty(len(outcome), int)
    of_fold[shuffled[outcome[shuffled].argsort(kind="stable")]] = np.arange(len(outcome)) % folds
    return of_fold


def _scorer(
    inputs: Array,
    outcome: Array,
    of_fold: npt.NDArray[np.intp],
    categorical: list[bool],
    is_binary: bool,
) -> Callable[[npt.NDArray[np.intp]], Array]:
    """Return a function from directions to the log score of every row, predicted out of fold.

    Numbers have the log score of a Gaussian with the squared error of the first call as variance.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    variance: list[float] = []

    def score(directions: npt.NDArray[np.intp]) -> Array:
        predicted = np.empty(len(outcome))
        kind = HistGradientBoostingClassifier if is_binary else HistGradientBoostingRegressor
        for fold in range(of_fold.max() + 1):
            learn, rest = of_fold != fold, of_fold == fold
            model = kind(
                max_iter=int(np.clip(len(outcome) // 10, 50, 100)),  # few rows are learned by heart
                max_leaf_nodes=int(np.clip(len(outcome) // 125, 4, 16)),
                early_stopping=False,
                monotonic_cst=directions,
                categorical_features=categorical,
            )
            with threadpool_limits(1):
                model.fit(inputs[learn], outcome[learn])
                p = model.predict_proba(inputs[rest])[:, 1] if is_binary else None
                predicted[rest] = model.predict(inputs[rest]) if p is None else p
        if is_binary:
            return np.log(np.where(outcome == 1.0, predicted, 1.0 - predicted).clip(1e-15))
        squared = (outcome - predicted) ** 2
        variance[:] = variance or [float(squared.mean())]
        return -0.5 * squared / variance[0]

    return score


def _table(costs: Mapping[str, tuple[Array, Array]]) -> pd.DataFrame:
    """The table of `suggest_directions`, from the costs of both directions in every row."""
    from scipy.stats import norm

    every = np.array([*costs.values()]).reshape(len(costs), 2, -1 if costs else 1)
    mean, error = every.mean(-1), every.std(-1) / np.sqrt(every.shape[-1])
    p_value = norm.sf(mean / np.where(error > 0.0, error, np.inf))
    is_cost = _holm(p_value.ravel()).reshape(-1, 2)
    rows = []
    for (rising, falling), (up, down) in zip(is_cost, mean, strict=True):
        if rising and falling:
            least, most = sorted((up, down))
            kind = "mostly " if least < MOSTLY * most else ""
            evidence = kind + ("rising" if up < down else "falling") if kind else "neither"
        else:
            evidence = "falling" if rising else "rising" if falling else "little"
        rows.append((evidence, {"rising": 1, "falling": -1}.get(evidence, 0)))
    index = pd.Index(costs, name="column")
    table = pd.DataFrame(rows, index, pd.Index(["evidence", "suggested"]))
    for name, cost, width in zip(("rising", "falling"), mean.T, 1.96 * error.T, strict=True):
        table[name], table[f"{name}_low"], table[f"{name}_high"] = cost, cost - width, cost + width
    return table


def _holm(p_value: Array) -> npt.NDArray[np.bool_]:
    """Whether each hypothesis is rejected by Holm's procedure at `LEVEL`."""
    order = p_value.argsort()
    passed = p_value[order] <= LEVEL / np.arange(len(p_value), 0, -1)
    rejected = np.zeros(len(p_value), bool)
    rejected[order] = np.logical_and.accumulate(passed)
    return rejected
