"""The audit: a search for pairs r <= r' at which a prediction decreases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from torch import nn

from pyro_gcm._utils.torch_state import evaluating, one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    column_names,
    matrix,
    number,
    one_of,
    positive_int,
    same_rows,
    seed_of,
    shown,
    without_tensor,
)
from pyro_gcm.audit.calls import Array, called
from pyro_gcm.audit.pairs import Space
from pyro_gcm.audit.result import MonotonicityAudit
from pyro_gcm.audit.search import SEARCHES, Search


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
    dtype: str | None = None,
    batch_size: int = 4096,
    seed: int = 0,
    progress: bool = True,
) -> MonotonicityAudit:
    """Search for violations of monotonicity in r, starting from rows of data.

    Three kinds of pairs share their number. "random" takes random steps from the rows; its rate of
    violations estimates a probability. "grid" moves one column between neighbouring values, and
    next to them. "gradient" takes short steps anywhere in the range, and makes the worst pairs so
    far worse. x is always that of a row; every row that is given is as likely as the others.

    Both ends of a pair go through calls of random sizes at random places, among those of other
    pairs: a predictor whose numbers for a row depend on the other rows of a call, or that draws
    anew in each, is found as well.

    A drop of at most `tolerance` * max(1, abs(prediction)) counts as rounding. The default
    tolerance is 2^-20 (about 1e-6) for float32 predictions and 2^-40 (1e-12) for float64: larger
    than the rounding error of sums of a thousand terms, and smaller than any relevant change of a
    probability. A warning reports predictions in units so small that the tolerance may hide
    violations.

    :param predictor: an object with `predict(x, r)` -> [B], such as a `GCM` or a baseline, or a
        module or function of (x, r), of tensors or arrays. `audit_table` takes predictors of one
        table, such as those of scikit-learn.
    :param x: [n, x_dim]; `r`: [n, r_dim], in the units of the predictor. Column names of DataFrames
        appear in the results.
    :param increasing: True or False for all columns of r, or +1, -1 or 0 (fixed) for each.
    :param pairs: maximum number of pairs in total.
    :param searches: any of "random", "grid" and "gradient".
    :param margin: how far to go beyond the range of each column of r, as a fraction of the range.
    :param tolerance: fraction of max(1, abs(prediction)) up to which a drop counts as rounding.
    :param dtype: "float32" or "float64", to which inputs are rounded; by default that of a module's
        parameters, and float64 for other predictors.
    :param batch_size: maximum number of rows per call.
    :param seed: seed of all random choices.
    :param progress: whether to show a progress bar if the audit takes longer than two seconds.
    :raises TypeError: for a predictor that cannot be called.
    :raises ValueError: for wrong shapes, values or options, for a predictor that fails at the first
        rows, and for predictions that are not finite.

    >>> x, r = np.zeros((50, 1)), np.linspace(0.0, 1.0, 50)[:, None]
    >>> audit = audit_monotonicity(lambda x, r: np.sin(4.0 * r[:, 0]), x, r, pairs=3000)
    >>> audit.passed, round(audit.largest_drop, 3)  # sin 4 after sin(pi / 2)
    (False, 1.757)
    """
    from tqdm.auto import tqdm

    (covariates, x_names), (revenues, r_names) = _rows("x", x), _rows("r", r)
    same_rows(x=covariates, r=revenues)
    if isinstance(increasing, bool):
        increasing = [1 if increasing else -1] * revenues.shape[1]
    signs = checked_signs("increasing", increasing, revenues.shape[1])
    searches = list(dict.fromkeys([searches] if isinstance(searches, str) else searches))
    for name in searches or [""]:
        one_of("searches", name, SEARCHES)
    pairs = positive_int("pairs", pairs, minimum=len(searches))
    batch_size, seed = positive_int("batch_size", batch_size), seed_of(seed)
    is_module = isinstance(predictor, nn.Module)
    # The difference of predictions near the largest number may overflow.
    with evaluating(predictor) if is_module else nullcontext(), np.errstate(over="ignore"):
        call, inputs, rounding = called(predictor, covariates, revenues, dtype)
        tolerance = rounding if tolerance is None else number("tolerance", tolerance, 0.0)
        space = Space(revenues, signs, number("margin", margin, 0.0), inputs)
        with tqdm(total=pairs, disable=not progress, delay=2, desc="audit", unit="pair") as bar:
            search = Search(call, covariates, space, tolerance, batch_size, bar)
            shares = np.diff(np.linspace(0, pairs, len(searches) + 1).astype(int))
            for name, share in zip(searches, shares.tolist(), strict=True):
                search.run(name, share, np.random.default_rng([seed, SEARCHES.index(name)]))
        return search.result(signs, x_names, r_names)


def _rows(name: str, value: ArrayLike) -> tuple[Array, list[str]]:
    """The rows as numbers, and the names of their columns."""
    tensor = as_tensor(name, value)
    tensor = matrix(name, tensor, tensor.shape[-1] if tensor.dim() else 0, f"{name}_dim")
    names = column_names(value) or [f"{name}[{j}]" for j in range(tensor.shape[1])]
    return tensor.double().cpu().numpy(), names


def checked_signs(name: str, signs: Sequence[int], columns: int) -> Array:
    """+1, -1 or 0 for each column, float64.

    :raises ValueError: for anything else.
    """
    entries = np.asarray(without_tensor(signs), dtype=object)
    is_sign = [not isinstance(sign, bool) and sign in (-1, 0, 1) for sign in entries.flat]
    if entries.shape != (columns,) or not all(is_sign):
        raise ValueError(
            f"{name} must be +1, -1 or 0 for each of the {columns} columns, got {shown(signs)}"
        )
    return entries.astype(np.float64)
