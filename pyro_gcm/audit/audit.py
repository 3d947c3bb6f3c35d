"""A search for pairs r <= r' at which a prediction falls, for any predictor of (x, r)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from pyro_gcm._validation import ArrayLike, as_tensor, matrix, one_of, positive_int, same_rows
from pyro_gcm.audit.pairs import Space
from pyro_gcm.audit.predictors import Array, as_predictor, evaluating
from pyro_gcm.audit.result import MonotonicityAudit
from pyro_gcm.audit.searches import SEARCHES, Searches


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

    Three searches share the pairs: "random" steps from real rows (whose rate of violations
    estimates a probability), "grid" steps of one column between neighbouring values, and
    "gradient": ascent of the drop from the most negative derivatives, or a random refinement of the
    worst pairs so far where the predictor has no derivatives. x is always that of a real row.

    Both ends of a pair are predicted in separate calls of equal shape and stand in the same place
    of their batches: kernels of matrix products are chosen by shape, so that the same row can
    differ in its last bits between batches of different sizes, which would look like a drop.

    A drop up to `tolerance` * max(1, abs(prediction)) counts as rounding. By default it is 2^-20
    (about 1e-6) for predictions in float32 and 2^-40 (1e-12) in float64, 8 and 4096 times their
    precision: what sums of some thousand terms round by is below it, what a person or an auction
    could notice in a probability is above. A violation below it is not told from rounding; a
    warning says so where predictions in small units fall by more than they round.

    :param predictor: an object with `predict(x, r)` -> [B], such as a `GCM` or a baseline; a module
        or function of (x, r), of tensors or arrays; or an object of scikit-learn's kind with
        `predict_proba` (its second column) or `predict` of one matrix, x's columns before r's.
    :param x: [n, x_dim]; `r`: [n, r_dim], in the units the predictor takes; of DataFrames the names
        of the columns are shown.
    :param increasing: True or False for all columns of r, or +1, -1 and 0 (held, not checked) for
        each.
    :param pairs: pairs compared in all, at most (points of the gradient's scan count as well).
    :param searches: which of "random", "grid" and "gradient".
    :param margin: how far to go beyond the range of each column of r, as a part of it.
    :param tolerance: the part of max(1, abs(prediction)) up to which a drop is rounding.
    :param adapter: how to call the predictor, one of `ADAPTERS`; "auto" tells it from the
        parameters of its methods.
    :param columns: positions of r's columns in the one matrix, where they are not the last. Not
        needed where x and r are DataFrames and the predictor has `feature_names_in_`.
    :param dtype: "float32" or "float64", what the predictor is given and r is rounded to; by
        default a module's own, and float64 for everything else.
    :param batch_size: rows a call, at most.
    :param seed: of all random choices.
    :param progress: show a progress bar if it takes longer than two seconds.
    :raises TypeError: for a predictor that cannot be called.
    :raises ValueError: for wrong shapes, values or options, a predictor that fails at the first
        rows, or predictions that are not finite.

    >>> import numpy as np
    >>> x, r = np.zeros((50, 1)), np.linspace(0.0, 1.0, 50)[:, None]
    >>> audit = audit_monotonicity(lambda x, r: np.sin(4.0 * r[:, 0]), x, r, pairs=3000)
    >>> audit.passed, round(audit.largest_drop, 3)  # sin 4 after sin(pi / 2)
    (False, 1.757)
    """
    names = [tuple(map(str, v.columns)) if isinstance(v, pd.DataFrame) else None for v in (x, r)]
    x, r = _rows("x", x), _rows("r", r)
    same_rows(x=torch.from_numpy(x), r=torch.from_numpy(r))
    signs = _signs(increasing, r.shape[1])
    searches = [searches] if isinstance(searches, str) else searches
    if not isinstance(searches, Sequence):
        raise TypeError(f"searches must be some of {list(SEARCHES)}, got {searches!r}")
    for search in searches:
        one_of("searches", search, SEARCHES)
    if not searches or len(set(searches)) < len(searches):
        raise ValueError(f"searches must be different ones of {list(SEARCHES)}, got {searches}")
    pairs = positive_int("pairs", pairs, minimum=len(searches))
    batch_size = positive_int("batch_size", batch_size)
    seed = positive_int("seed", seed, minimum=0)
    for name, number in (
        ("margin", margin),
        ("tolerance", 0.0 if tolerance is None else tolerance),
    ):
        if not isinstance(number, Real) or not 0.0 <= number < math.inf:
            raise ValueError(f"{name} must be a number of at least 0, got {number!r}")
    # Predictions near the largest number may be further apart than that.
    with evaluating(predictor), np.errstate(over="ignore"):
        both = None if names[0] is None or names[1] is None else [*names[0], *names[1]]
        resolved = as_predictor(
            predictor, x, r, adapter=adapter, columns=columns, dtype=dtype, names=both
        )
        tolerance = default_tolerance(resolved.output) if tolerance is None else float(tolerance)
        space = Space.of(r, signs, margin, resolved.dtype)
        with tqdm(total=pairs, disable=not progress, delay=2, desc="audit", unit="pair") as bar:
            run = Searches(resolved, x, signs, space, tolerance, batch_size, bar)
            for search, share in zip(searches, _shares(pairs, len(searches)), strict=True):
                run(search, share, np.random.default_rng([seed, SEARCHES.index(search)]))
        witness = run.witness()
    _warn_of_small_units(run)
    kinds = [tally.row() for tally in run.tallies]
    moved, bad, alone = np.sum([tally.columns for tally in run.tallies], 0)
    x_names, r_names = (
        given or tuple(f"{name}[{j}]" for j in range(values.shape[1]))
        for given, name, values in zip(names, "xr", (x, r), strict=True)
    )
    by_column = pd.DataFrame(
        {
            "column": [r_names[j] for j in space.moving],
            "pairs": moved,
            "violations": bad,
            "rate": bad / np.maximum(moved, 1),
            "violations_alone": alone,
        }
    )
    drops = pd.DataFrame(
        [row for tally in run.tallies for row in tally.drops()],
        columns=["search", "exponent", "rounding", "violations"],
    )
    increases = tuple(int(s) for s in signs)
    return MonotonicityAudit(
        pd.DataFrame(kinds), by_column, drops, increases, tolerance, witness, x_names, r_names
    )


def default_tolerance(output: Any) -> float:
    """Eight units of the precision of predictions; in float64 2^-40, for sums of many terms."""
    if isinstance(output, np.dtype):
        eps = float(np.finfo(output).eps) if output.kind == "f" else 0.0
    else:
        eps = float(torch.finfo(output).eps) if output.is_floating_point else 0.0
    return max(8.0 * eps, 2.0**-40)


def _warn_of_small_units(run: Searches) -> None:
    """Say where drops pass as rounding only because max(1, abs(prediction)) is 1."""
    size = max(abs(run.lowest), abs(run.highest))
    drop = max(tally.largest_drop for tally in run.tallies)
    span = run.highest - run.lowest
    if run.tolerance * size < drop <= run.tolerance and span < 1e3 * run.tolerance:
        warnings.warn(
            f"predictions go from {run.lowest:.3g} to {run.highest:.3g} and fall by up to "
            f"{drop:.3g}, which the tolerance of {run.tolerance:.2g} counts as rounding: audit "
            "them in larger units, or pass a smaller tolerance",
            stacklevel=3,
        )


def _rows(name: str, value: ArrayLike) -> Array:
    tensor = as_tensor(name, value)
    tensor = matrix(name, tensor, tensor.shape[-1] if tensor.dim() else 0, f"{name}_dim")
    return np.asarray(tensor.double().cpu().numpy())


def _signs(increasing: bool | Sequence[int], r_dim: int) -> Array:
    """+1, -1 or 0 for each column of r."""
    if isinstance(increasing, bool):
        return np.full(r_dim, 1.0 if increasing else -1.0)
    signs = np.asarray(increasing, dtype=object)
    if signs.shape != (r_dim,) or not all(
        not isinstance(s, bool) and s in (-1, 0, 1) for s in signs
    ):
        raise ValueError(
            f"increasing must be True, False or {r_dim} of +1, -1 and 0, one for each column of r, "
            f"got {increasing!r}"
        )
    return signs.astype(np.float64)


def _shares(count: int, parts: int) -> list[int]:
    """`count` in nearly equal parts."""
    return [count // parts + (k < count % parts) for k in range(parts)]
