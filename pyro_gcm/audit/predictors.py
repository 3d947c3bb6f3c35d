"""A uniform interface to predictors: arrays of x and r in, one prediction per row out."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import evaluating as _evaluating
from pyro_gcm._utils.torch_state import exclusively
from pyro_gcm._utils.validation import one_of
from pyro_gcm.audit.adapters import ADAPTERS, adapter_of, of_x_and_r

Array = npt.NDArray[np.float64]
#: A differentiable function of tensors x [B, x_dim] and r [B, r_dim].
Differentiable = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Predictor:
    """A predictor as a function `predictor(x, r)` of float64 arrays, [B, ...] -> [B].

    :param adapter: how it is called, one of `ADAPTERS`.
    :param dtype: dtype of the inputs that it receives.
    :param output: dtype of the predictions that it returns.
    :param call: the function behind it.
    :param derivative: derivatives [B, r_dim] with respect to r of the prediction, or of the score
        that the `forward` of a module returns if its `predict` has no gradient; None if there are
        none. They only guide a search.
    """

    adapter: str
    dtype: np.dtype[Any]
    output: np.dtype[Any] | torch.dtype
    call: Callable[[Array, Array], Any]
    derivative: Callable[[Array, Array], Array] | None

    def __call__(self, x: Array, r: Array) -> Array:
        """Predictions [B], which must be finite."""
        values = _checked(self.call(x, r), len(r), self.adapter)[0]
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(
                f"predictor must return finite values, got {values[row]} at x = {x[row].tolist()}, "
                f"r = {r[row].tolist()}"
            )
        return values


def as_predictor(
    predictor: Any,
    x: Array,
    r: Array,
    *,
    adapter: str = "auto",
    columns: Sequence[int] | None = None,
    dtype: str | None = None,
    names: Sequence[str] | None = None,
) -> Predictor:
    """Determine with a few rows of data how to call a predictor and which inputs it accepts.

    A module is called with tensors on the device and in the dtype of its parameters, other
    predictors in float64; models with `predict(x, r)` receive float64 if they accept it. A function
    is tried first with tensors, which gives derivatives, and then with arrays.

    :param x: rows of data, [n, x_dim]; `r`: [n, r_dim].
    :param adapter, columns, dtype: as for `audit_monotonicity`.
    :param names: names of the columns of x and r, if they are known.
    :raises TypeError: if the predictor cannot be called.
    :raises ValueError: for invalid options, or if all calls with the first rows fail.
    """
    if isinstance(adapter, str) and adapter == "auto":
        adapter = adapter_of(predictor)
    one_of("adapter", adapter, ADAPTERS)
    if dtype is not None:
        one_of("dtype", dtype, ("float32", "float64"))
    function = of_x_and_r(predictor, adapter, columns, x.shape[1], r.shape[1], names)
    weight = None
    ways = ["tensors with gradient", "arrays", "tensors"]
    if isinstance(predictor, nn.Module):
        weight = next((p for p in predictor.parameters() if p.is_floating_point()), None)
        ways.remove("arrays")
    elif adapter in ("predict(matrix)", "predict_proba(matrix)"):
        ways = ["arrays"]
    own_dtype = torch.float64 if weight is None else weight.dtype
    half = own_dtype in (torch.float16, torch.bfloat16)  # numpy has no bfloat16
    own = "float32" if half or own_dtype == torch.float32 else "float64"
    first = own if adapter.startswith("call") else "float64"
    dtypes = (dtype,) if dtype is not None else tuple(dict.fromkeys((first, own)))
    device = torch.device("cpu") if weight is None else weight.device

    probe_x, probe_r = x[:3], r[:3]
    error: Exception | None = None
    for kind, way in itertools.product(dtypes, ways):
        given = np.dtype(kind)
        tensors = partial(_tensors, given, own_dtype if half else getattr(torch, kind), device)
        call = partial(_call_tensors, function, tensors)
        if way == "arrays":
            call = partial(_call_arrays, function, given)
        derivative = None
        try:
            with exclusively(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if way == "tensors with gradient":
                    guide = _differentiable(predictor, function, adapter)
                    derivative = partial(_derivative, guide, tensors)
                    derivative(probe_x, probe_r)
                output = _checked(call(probe_x, probe_r), len(probe_r), adapter)[1]
        except Exception as raised:  # predictors raise many types of errors for unsuitable inputs
            if way != "tensors with gradient":
                error = error or raised
            continue
        return Predictor(adapter, given, output, call, derivative)
    raise ValueError(
        f"predictor {type(predictor).__name__} was called as {adapter} with {len(probe_r)} rows of "
        f"x [rows, {x.shape[1]}] and r [rows, {r.shape[1]}] and failed: "
        f"{type(error).__name__}: {error}. Another adapter= may be right, one of {list(ADAPTERS)}"
    ) from error


def evaluating(predictor: Any) -> AbstractContextManager[None]:
    """A context in which the predictor, if it is a module, is in evaluation mode."""
    return _evaluating(predictor) if isinstance(predictor, nn.Module) else nullcontext()


def _call_arrays(function: Any, given: np.dtype[Any], x: Array, r: Array) -> Any:
    return function(x.astype(given), r.astype(given))


def _tensors(
    given: np.dtype[Any], dtype: torch.dtype, device: torch.device, x: Array, r: Array
) -> list[Tensor]:
    """The arrays, rounded to dtype `given`, as tensors."""
    return [torch.from_numpy(v.astype(given)).to(device).to(dtype) for v in (x, r)]


def _call_tensors(function: Any, tensors: Any, x: Array, r: Array) -> Any:
    with torch.no_grad():
        return function(*tensors(x, r))


def _differentiable(predictor: Any, function: Any, adapter: str) -> Differentiable:
    """The function whose derivatives guide the search: the call, or `forward` behind `predict`."""
    if not isinstance(predictor, nn.Module) or adapter != "predict(x, r)":
        return function

    def forward_or_predict(x: Tensor, r: Tensor) -> Tensor:
        value: Tensor = function(x, r)
        return value if value.requires_grad else predictor(x, r)

    return forward_or_predict


def _derivative(function: Differentiable, tensors: Any, x: Array, r: Array) -> Array:
    covariates, revenues = tensors(x, r)
    with torch.enable_grad():
        value = function(covariates, revenues.requires_grad_())
        if value.shape not in ((len(r),), (len(r), 1)):
            raise ValueError(f"predictor must return a value per row, got {tuple(value.shape)}")
        (slope,) = torch.autograd.grad(value.sum(), revenues)
    # A derivative that is not finite gives no direction.
    return np.nan_to_num(slope.double().cpu().numpy(), posinf=0.0, neginf=0.0)


def _checked(values: Any, rows: int, adapter: str) -> tuple[Array, Any]:
    """Predictions as float64 [rows], and their original dtype."""
    if isinstance(values, Tensor):
        kind: Any = values.dtype
        if values.is_complex():
            raise TypeError(f"predictor must return real numbers, got dtype {kind}")
        array = values.detach().double().cpu().numpy()
    else:
        array = np.asarray(values)
        kind = array.dtype
        if kind.kind not in "fiub":
            raise TypeError(f"predictor must return numbers, got dtype {kind}")
        array = array.astype(np.float64)
    if array.shape not in ((rows,), (rows, 1)) and array.size * rows != 1:
        raise ValueError(
            f"predictor called as {adapter} must return shape ({rows},), got {array.shape}"
        )
    return array.reshape(rows), kind
