"""How a predictor is called: arrays of x and r in, one number for each row out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyro_gcm._utils.validation import one_of

Array = npt.NDArray[np.float64]
#: A function of x [B, x_dim] and r [B, r_dim] to predictions [B], with the type that they had.
Call = Callable[[Array, Array], tuple[Array, Any]]


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
            return call, np.dtype(kind), max(8.0 * _eps(output), 2.0**-40)
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


def _eps(output: Any) -> float:
    """The precision of predictions of a type of numpy's or torch's; 0 of integers."""
    if isinstance(output, torch.dtype):
        return torch.finfo(output).eps if output.is_floating_point else 0.0
    return float(np.finfo(output).eps) if output.kind == "f" else 0.0
