"""The audit: how a predictor is called, and a search for r <= r' at which it decreases."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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
)
from pyro_gcm.audit.pairs import Array, Call, Space
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

    from pyro_gcm.data.tables import signs_of

    (covariates, x_names), (revenues, r_names) = rows_of("x", x), rows_of("r", r)
    same_rows(x=covariates, r=revenues)
    if isinstance(increasing, bool):
        increasing = [1 if increasing else -1] * revenues.shape[1]
    signs = np.array(signs_of("increasing", increasing, revenues.shape[1]), np.float64)
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


def rows_of(name: str, value: ArrayLike) -> tuple[Array, list[str]]:
    """The rows as numbers, and the names of their columns."""
    tensor = as_tensor(name, value)
    tensor = matrix(name, tensor, tensor.shape[-1] if tensor.dim() else 0, f"{name}_dim")
    names = column_names(value) or [f"{name}[{j}]" for j in range(tensor.shape[1])]
    return tensor.double().cpu().numpy(), names


def called(
    predictor: Any, x: Array, r: Array, dtype: str | None
) -> tuple[Call, np.dtype[Any], float]:
    """Find out with three rows how a predictor of x and r is called.

    A module is called with tensors on the device and in the type of its parameters, others in
    float64, with arrays if they take them and otherwise with tensors. A `predict(x, r)` gets
    float64 if it takes it.

    :returns: the call, the type of its inputs, and the tolerance that its predictions need.
    :raises TypeError: for a predictor that cannot be called.
    :raises ValueError: if it fails at the first rows.
    """
    method, error = method_of(predictor), None
    for kind, tensor in _ways(predictor, dtype):
        call = partial(_call, method, np.dtype(kind), tensor)
        try:
            _, output = call(x[:3], r[:3])
        except Exception as raised:  # predictors raise many types of errors for unsuitable inputs
            error = error or raised
        else:
            return call, np.dtype(kind), rounding_of(output)
    raise ValueError(
        f"predictor {type(predictor).__name__} failed when it was called with rows of x and r: "
        f"{type(error).__name__}: {error}; audit_table takes predictors of one table"
    ) from error


def method_of(predictor: Any) -> Any:
    """The function that predicts: `predict` of an object, or the object itself.

    :raises TypeError: for what cannot be called.
    """
    if inspect.isclass(predictor):
        raise TypeError(f"predictor is the class {predictor.__name__}, pass an instance of it")
    if callable(method := getattr(predictor, "predict", None)):
        return method
    if not callable(predictor):
        raise TypeError(
            f"predictor must be callable or have a method predict, got {type(predictor).__name__}"
        )
    return predictor.forward if isinstance(predictor, nn.Module) else predictor


def _ways(predictor: Any, dtype: str | None) -> Iterator[tuple[str, Tensor | None]]:
    """Types of inputs to try, each with a tensor of the device and type to make tensors like."""
    if dtype is not None:
        one_of("dtype", dtype, ("float32", "float64"))
    if not isinstance(predictor, nn.Module):
        kind = dtype or "float64"
        yield from ((kind, None), (kind, torch.empty(0, dtype=getattr(torch, kind))))
        return
    weights = (p for p in predictor.parameters() if p.is_floating_point())
    weight = next(weights, torch.empty(0, dtype=torch.float64)).detach()
    of_weight = "float64" if weight.dtype == torch.float64 else "float32"
    kinds = [of_weight, "float64"]
    if callable(getattr(predictor, "predict", None)):
        kinds.reverse()
    for kind in kinds if dtype is None else (dtype,):
        # numpy has no bfloat16
        yield kind, weight if weight.dtype.itemsize < 4 else weight.to(getattr(torch, kind))


def _call(
    function: Any, kind: np.dtype[Any], like: Tensor | None, x: Array, r: Array
) -> tuple[Array, Any]:
    """Predictions [B], float64, and their own type."""
    inputs: Any = [values.astype(kind) for values in (x, r)]
    if like is not None:
        inputs = [torch.from_numpy(values).to(like) for values in inputs]
    with torch.no_grad():
        values = function(*inputs)
    output = values.dtype if isinstance(values, Tensor) else np.asarray(values).dtype
    if isinstance(values, Tensor):
        real = values.double() if values.is_floating_point() else values
        values = real.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"predictor must return real numbers, got dtype {output}")
    if array.shape not in ((len(r),), (len(r), 1)) and array.size * len(r) != 1:
        raise ValueError(f"predictor must return shape ({len(r)},), got {array.shape}")
    array = array.astype(np.float64).reshape(len(r))
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(
            f"predictor must return finite values, got {array[row]} at x = {x[row].tolist()}, "
            f"r = {r[row].tolist()}"
        )
    return array, output


def rounding_of(output: Any) -> float:
    """The tolerance that predictions need of a type of numpy's or torch's; it may be integers."""
    eps = 0.0
    if isinstance(output, torch.dtype):
        eps = torch.finfo(output).eps if output.is_floating_point else 0.0
    elif output.kind == "f":
        eps = float(np.finfo(output).eps)
    return max(8.0 * eps, 2.0**-40)
