"""The audit: a search for pairs r <= r' at which a prediction decreases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    matrix,
    one_of,
    positive_int,
    same_rows,
    seed_of,
    shown,
    without_tensor,
)
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.audit.pairs import Space
from pyro_gcm.audit.predictors import Array, as_predictor, evaluating
from pyro_gcm.audit.result import MonotonicityAudit
from pyro_gcm.audit.searches import SEARCHES, Searches


@one_thread()
def audit_monotonicity(
    predictor: Any,
    x: ArrayLike,
    r: ArrayLike,
    *,
    increasing: bool | Sequence[int] = True,
    pairs: int = 100_000,
    searches: Sequence[str] = SEARCHES,
    margin: float = 0.0,
    tolerance: float | None = None,
    adapter: str = "auto",
    columns: Sequence[int] | None = None,
    dtype: str | None = None,
    batch_size: int = 4096,
    seed: int = 0,
    progress: bool = True,
) -> MonotonicityAudit:
    """Search for violations of monotonicity in r, starting from rows of data.

    Three searches share the pairs. "random" takes random steps from the rows; its rate of
    violations estimates a probability. "grid" moves one column between neighbouring values.
    "gradient" maximises the drop, starting from the most negative derivatives, or refines the worst
    pairs found so far at random if the predictor has no derivatives. x is always that of a row.

    The two ends of a pair are predicted in separate calls of equal shape, at the same position of
    the batch, because results of matrix products depend on the shape in their last bits.

    A drop of at most `tolerance` * max(1, abs(prediction)) counts as rounding. The default
    tolerance is 2^-20 (about 1e-6) for float32 predictions and 2^-40 (1e-12) for float64: larger
    than the rounding error of sums of a thousand terms, and smaller than any relevant change of a
    probability. A warning reports predictions in units so small that the tolerance may hide
    violations.

    :param predictor: an object with `predict(x, r)` -> [B], such as a `GCM` or a baseline; a module
        or function of (x, r), of tensors or arrays; or an object with the interface of scikit-learn
        whose `predict_proba` (second column) or `predict` takes one matrix [x, r].
    :param x: [n, x_dim]; `r`: [n, r_dim], in the units of the predictor. Column names of DataFrames
        appear in the results.
    :param increasing: True or False for all columns of r, or +1, -1 or 0 (fixed) for each.
    :param pairs: maximum number of pairs in total, including the points of the gradient scan.
    :param searches: any of "random", "grid" and "gradient".
    :param margin: how far to go beyond the range of each column of r, as a fraction of the range.
    :param tolerance: fraction of max(1, abs(prediction)) up to which a drop counts as rounding.
    :param adapter: how to call the predictor, one of `ADAPTERS`; "auto" determines it from the
        parameters of its methods.
    :param columns: positions of the columns of r in the matrix, if they are not the last and cannot
        be found by the names of DataFrames and the predictor's `feature_names_in_`.
    :param dtype: "float32" or "float64", to which inputs are rounded; by default that of a module's
        parameters, and float64 for other predictors.
    :param batch_size: maximum number of rows per call.
    :param seed: seed of all random choices.
    :param progress: whether to show a progress bar if the audit takes longer than two seconds.
    :raises TypeError: if the predictor cannot be called.
    :raises ValueError: for wrong shapes, values or options, for a predictor that fails at the first
        rows, and for predictions that are not finite.

    >>> x, r = np.zeros((50, 1)), np.linspace(0.0, 1.0, 50)[:, None]
    >>> audit = audit_monotonicity(lambda x, r: np.sin(4.0 * r[:, 0]), x, r, pairs=3000)
    >>> audit.passed, round(audit.largest_drop, 3)  # sin 4 after sin(pi / 2)
    (False, 1.757)
    """
    import pandas as pd
    from tqdm.auto import tqdm

    names = [tuple(map(str, v.columns)) if isinstance(v, pd.DataFrame) else None for v in (x, r)]
    x, r = _rows("x", x), _rows("r", r)
    same_rows(x=torch.from_numpy(x), r=torch.from_numpy(r))
    signs = _signs(increasing, r.shape[1])
    searches = [searches] if isinstance(searches, str) else searches
    if not isinstance(searches, Sequence):
        raise TypeError(f"searches must be a sequence from {list(SEARCHES)}, got {searches!r}")
    for search in searches:
        one_of("searches", search, SEARCHES)
    if not searches or len(set(searches)) < len(searches):
        raise ValueError(f"searches must be different, from {list(SEARCHES)}, got {searches}")
    pairs = positive_int("pairs", pairs, minimum=len(searches))
    batch_size = positive_int("batch_size", batch_size)
    seed = seed_of(seed)
    for name, number in (
        ("margin", margin),
        ("tolerance", 0.0 if tolerance is None else tolerance),
    ):
        if not isinstance(number, Real) or not 0.0 <= number < math.inf:
            raise ValueError(f"{name} must be a number of at least 0, got {shown(number)}")
    # The difference of predictions near the largest number may overflow.
    with evaluating(predictor), np.errstate(over="ignore"):
        both = None if names[0] is None or names[1] is None else [*names[0], *names[1]]
        resolved = as_predictor(
            predictor, x, r, adapter=adapter, columns=columns, dtype=dtype, names=both
        )
        tolerance = default_tolerance(resolved.output) if tolerance is None else float(tolerance)
        space = Space(r, signs, margin, resolved.dtype)
        with tqdm(total=pairs, disable=not progress, delay=2, desc="audit", unit="pair") as bar:
            run = Searches(resolved, x, signs, space, tolerance, batch_size, bar)
            for search, share in zip(searches, _shares(pairs, len(searches)), strict=True):
                run(search, share, np.random.default_rng([seed, SEARCHES.index(search)]))
        witness = run.witness()
    _warn_of_small_units(run)
    moved, violations, alone = np.sum([tally.columns for tally in run.tallies], 0)
    x_names, r_names = (
        given or tuple(f"{name}[{j}]" for j in range(values.shape[1]))
        for given, name, values in zip(names, "xr", (x, r), strict=True)
    )
    by_column = pd.DataFrame(
        {
            "column": [r_names[j] for j in space.moving],
            "pairs": moved,
            "violations": violations,
            "rate": violations / np.maximum(moved, 1),
            "violations_alone": alone,
        }
    )
    drops = pd.DataFrame(
        [row for tally in run.tallies for row in tally.drops()],
        columns=["search", "exponent", "rounding", "violations"],
    )
    return MonotonicityAudit(
        frame=pd.DataFrame([tally.row() for tally in run.tallies]),
        by_column=by_column,
        drops=drops,
        increasing=tuple(int(s) for s in signs),
        tolerance=tolerance,
        witness=witness,
        x_names=x_names,
        r_names=r_names,
    )


def default_tolerance(output: Any) -> float:
    """8 times the precision of predictions in dtype `output`, but at least 2^-40."""
    if isinstance(output, np.dtype):
        eps = float(np.finfo(output).eps) if output.kind == "f" else 0.0
    else:
        eps = float(torch.finfo(output).eps) if output.is_floating_point else 0.0
    return max(8.0 * eps, 2.0**-40)


def _warn_of_small_units(run: Searches) -> None:
    """Warn if drops count as rounding only because max(1, abs(prediction)) is 1."""
    size = max(abs(run.lowest), abs(run.highest))
    drop = max(tally.largest_drop for tally in run.tallies)
    span = run.highest - run.lowest
    if run.tolerance * size < drop <= run.tolerance and span < 1e3 * run.tolerance:
        warn_user(
            f"predictions range from {run.lowest:.3g} to {run.highest:.3g} and decrease by up to "
            f"{drop:.3g}, which the tolerance of {run.tolerance:.2g} counts as rounding: use "
            "larger units, or pass a smaller tolerance"
        )


def _rows(name: str, value: ArrayLike) -> Array:
    tensor = as_tensor(name, value)
    tensor = matrix(name, tensor, tensor.shape[-1] if tensor.dim() else 0, f"{name}_dim")
    return np.asarray(tensor.double().cpu().numpy())


def _signs(increasing: bool | Sequence[int], r_dim: int) -> Array:
    """+1, -1 or 0 for each column of r."""
    if isinstance(increasing, bool):
        return np.full(r_dim, 1.0 if increasing else -1.0)
    signs = np.asarray(without_tensor(increasing), dtype=object)
    if signs.shape != (r_dim,) or not all(
        not isinstance(s, bool) and s in (-1, 0, 1) for s in signs
    ):
        raise ValueError(
            f"increasing must be True, False, or +1, -1 or 0 for each of the {r_dim} columns of r, "
            f"got {shown(increasing)}"
        )
    return signs.astype(np.float64)


def _shares(count: int, parts: int) -> list[int]:
    """Split `count` into nearly equal parts."""
    return [count // parts + (k < count % parts) for k in range(parts)]
