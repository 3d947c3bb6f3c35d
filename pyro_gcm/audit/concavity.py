"""A search for convex steps: triples of revenues between which a prediction gains more and more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from pyro_gcm._utils.torch_state import evaluating, one_thread
from pyro_gcm._utils.validation import ArrayLike, number, positive_int, same_rows, seed_of, shown
from pyro_gcm.audit.audit import called, rows_of
from pyro_gcm.audit.pairs import Array

#: Steps, as shares of the range of a column, are between this and 1, uniform in their logarithm.
_LEAST = 1e-6


class ConcavityAudit(NamedTuple):
    """What a search for convex steps has found.

    :param triples: their number; `violations`: those that lie below their chord by more than the
        tolerance, and `largest`: by how much the worst of all does, negative where none does.
    :param tolerance: fraction of max(1, abs(prediction)) that counts as rounding.
    :param column: of the worst triple, by its index, or of a table its name; `row`: of its rows;
        `values`: its three values, rising, and
        `predictions`: theirs.
    """

    triples: int
    violations: int
    largest: float
    tolerance: float
    column: int | str
    row: int
    values: Array
    predictions: Array

    @property
    def passed(self) -> bool:
        """Whether no violation was found."""
        return self.violations == 0

    def summary(self) -> str:
        """A summary to print: counts, and the worst triple of a failure."""
        verdict = "passed" if self.passed else "FAILED"
        line = (
            f"concavity {verdict}: {self.violations} violations in {self.triples} triples "
            f"(tolerance {self.tolerance:.2g}, largest {max(0.0, self.largest):.2g})"
        )
        if self.passed:
            return line
        pairs = zip(self.values, self.predictions, strict=True)
        steps = ", ".join(f"{p:.9g} at {value:.9g}" for value, p in pairs)
        return f"{line}\nworst triple (row {self.row}), column {self.column}: {steps}"


@one_thread()
def audit_concavity(
    predictor: Any,
    x: ArrayLike,
    r: ArrayLike,
    columns: Sequence[int],
    *,
    triples: int = 20_000,
    tolerance: float | None = None,
    dtype: str | None = None,
    batch_size: int = 4096,
    seed: int = 0,
) -> ConcavityAudit:
    """Search for triples of values of a column at which a prediction is not concave.

    A triple has three values of one column within the range of its rows, and the rest of a row. The
    prediction at the value in the middle may not lie below the chord of the other two: that is a
    second difference above 0, wherever the middle is. Half of the steps are short.

    :param predictor, dtype: as `audit_monotonicity` takes them.
    :param x: [n, x_dim]; `r`: [n, r_dim], in the units of the predictor.
    :param columns: indices of the columns of r to search.
    :param triples: their number.
    :param tolerance: fraction of max(1, abs(prediction)) that counts as rounding, by default that
        of `audit_monotonicity`.
    :param batch_size: maximum number of rows per call.
    :raises ValueError: for wrong shapes, values or options.

    >>> x, r = np.zeros((50, 1)), np.linspace(0.0, 2.0, 50)[:, None]
    >>> audit_concavity(lambda x, r: np.sqrt(r[:, 0]), x, r, [0]).passed
    True
    >>> audit_concavity(lambda x, r: r[:, 0] ** 2, x, r, [0]).passed
    False
    """
    (covariates, _), (revenues, _) = rows_of("x", x), rows_of("r", r)
    same_rows(x=covariates, r=revenues)
    if not columns or {*columns} - {*range(revenues.shape[1])}:
        wanted = f"indices of the {revenues.shape[1]} columns of r"
        raise ValueError(f"columns must be {wanted}, got {shown(list(columns))}")
    count, size = positive_int("triples", triples), positive_int("batch_size", batch_size)
    rng = np.random.default_rng(seed_of(seed))
    row = rng.integers(len(revenues), size=count)
    column = np.asarray(columns)[rng.integers(len(columns), size=count)]
    low, high = revenues.min(0)[column], revenues.max(0)[column]
    step = np.exp(np.log(_LEAST) * np.maximum(0.0, rng.uniform(-1.0, 1.0, count)))
    first = low + (1.0 - step) * (high - low) * rng.uniform(size=count)
    last = np.minimum(first + step * (high - low), high)
    with evaluating(predictor) if isinstance(predictor, nn.Module) else nullcontext():
        call, kind, rounding = called(predictor, covariates, revenues, dtype)
        tolerance = rounding if tolerance is None else number("tolerance", tolerance, 0.0)
        ends = [first, first + rng.uniform(0.1, 0.9, count) * (last - first), last]
        values = np.stack([end.astype(kind).astype(np.float64) for end in ends])
        at = np.repeat(revenues[None, row], 3, 0)
        at[:, np.arange(count), column] = values
        points, rows = at.reshape(3 * count, -1), np.tile(row, 3)
        order = rng.permutation(3 * count)  # so that those of a triple are in several calls
        found = np.empty(3 * count)
        for some in np.split(order, range(size, 3 * count, size)):
            found[some] = call(covariates[rows[some]], points[some])[0]
    p = found.reshape(3, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (values[1] - values[0]) / (values[2] - values[0])
        below = np.nan_to_num((1.0 - share) * p[0] + share * p[2] - p[1], nan=-np.inf)
    bad = below > tolerance * np.maximum(1.0, np.abs(p).max(0))
    worst = int(below.argmax())
    ends = [int(column[worst]), int(row[worst]), values[:, worst], p[:, worst]]
    return ConcavityAudit(count, int(bad.sum()), float(below[worst]), tolerance, *ends)
