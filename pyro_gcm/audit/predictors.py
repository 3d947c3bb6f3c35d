"""One way to call every predictor: arrays of x and r in, a prediction for each row out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyro_gcm._evaluating import evaluating as _evaluating
from pyro_gcm._validation import one_of
from pyro_gcm.audit.adapters import ADAPTERS, adapter_of, of_x_and_r

Array = npt.NDArray[np.float64]
#: A differentiable function of tensors x [B, x_dim] and r [B, r_dim].
Gradable = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Predictor:
    """A predictor behind one face: `predictor(x, r)` in float64 numpy, [B, ...] -> [B].

    `dtype` is what the predictor is given, `output` what it answers in. `derivative` [B, r_dim] is
    that of its prediction by r, or of the score that a module's `forward` gives where its `predict`
    has no gradient; it only guides a search. None where there is neither.
    """

    adapter: str
    dtype: np.dtype[Any]
    output: np.dtype[Any] | torch.dtype
    call: Callable[[Array, Array], Any]
    derivative: Callable[[Array, Array], Array] | None

    def __call__(self, x: Array, r: Array) -> Array:
        """Predictions [B], finite."""
        values = _checked(self.call(x, r), len(r), self.adapter)[0]
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(
                f"predictor must give finite values, got {values[row]} at x = {x[row].tolist()}, "
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
    """Find out, with a few rows of data, how a predictor is called and what it takes.

    Things of torch get tensors (on the device of their parameters), a plain module in the dtype of
    its parameters; all others, and models with `predict(x, r)` that take it, get float64. A
    function is tried with tensors first, so that its derivatives can be used, then with arrays.
    `names` are those of the columns of x and r, where they are known.
    """
    if adapter == "auto":
        adapter = adapter_of(predictor)
    one_of("adapter", adapter, ADAPTERS)
    if dtype is not None:
        one_of("dtype", dtype, ("float32", "float64"))
    function = of_x_and_r(predictor, adapter, columns, x.shape[1], r.shape[1], names)
    module = predictor if isinstance(predictor, nn.Module) else None
    weight = (
        next((p for p in module.parameters() if p.is_floating_point()), None)
        if module is not None
        else None
    )
    own_dtype = torch.float64 if weight is None else weight.dtype
    half = own_dtype in (torch.float16, torch.bfloat16)  # numpy has but one of them
    own = "float32" if half or own_dtype == torch.float32 else "float64"
    first = own if adapter.startswith("call") else "float64"
    dtypes = (dtype,) if dtype is not None else tuple(dict.fromkeys((first, own)))
    device = torch.device("cpu") if weight is None else weight.device
    ways: list[str] = ["tensors with gradient", "tensors"]
    if module is None:
        ways.insert(1, "arrays")
        if "matrix" in adapter and adapter != "call(matrix)":
            ways = ["arrays"]

    probe_x, probe_r = x[:3], r[:3]
    error: Exception | None = None
    for kind in dtypes:
        given = np.dtype(kind)

        def tensors(x: Array, r: Array, given: np.dtype[Any] = given) -> tuple[Tensor, Tensor]:
            pair = [torch.from_numpy(v.astype(given)).to(device) for v in (x, r)]
            if half:
                pair = [v.to(own_dtype) for v in pair]
            return pair[0], pair[1]

        def by_tensors(x: Array, r: Array, tensors: Any = tensors) -> Any:
            with torch.no_grad():
                return function(*tensors(x, r))

        def by_arrays(x: Array, r: Array, given: np.dtype[Any] = given) -> Any:
            return function(x.astype(given), r.astype(given))

        for way in ways:
            call = by_arrays if way == "arrays" else by_tensors
            derivative = None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if way == "tensors with gradient":
                        derivative = _derivative(
                            _differentiable(predictor, function, adapter), tensors
                        )
                        derivative(probe_x, probe_r)
                    output = _checked(call(probe_x, probe_r), len(probe_r), adapter)[1]
            except Exception as raised:  # whatever a predictor raises at what it cannot take
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
    """A module in evaluation mode for as long as this lasts."""
    return _evaluating(predictor) if isinstance(predictor, nn.Module) else nullcontext()


def _differentiable(predictor: Any, function: Any, adapter: str) -> Gradable:
    """What guides the search: the call itself, or the `forward` behind a `predict`."""
    if isinstance(predictor, nn.Module) and adapter == "predict(x, r)":

        def forward_or_predict(x: Tensor, r: Tensor) -> Tensor:
            value: Tensor = function(x, r)
            return value if value.requires_grad else predictor(x, r)

        return forward_or_predict
    return function


def _derivative(function: Gradable, tensors: Any) -> Callable[[Array, Array], Array]:
    def derivative(x: Array, r: Array) -> Array:
        covariates, revenues = tensors(x, r)
        with torch.enable_grad():
            value = function(covariates, revenues.requires_grad_())
            if value.shape not in ((len(r),), (len(r), 1)):
                raise ValueError(f"predictor must give a value a row, got {tuple(value.shape)}")
            (slope,) = torch.autograd.grad(value.sum(), revenues)
        # A slope that is not a number points nowhere.
        return np.nan_to_num(slope.double().cpu().numpy(), posinf=0.0, neginf=0.0)

    return derivative


def _checked(values: Any, rows: int, adapter: str) -> tuple[Array, Any]:
    """Predictions as float64 [rows], and the dtype they came in."""
    if isinstance(values, Tensor):
        kind: Any = values.dtype
        if values.is_complex():
            raise TypeError(f"predictor must give real numbers, got dtype {kind}")
        array = values.detach().double().cpu().numpy()
    else:
        array = np.asarray(values)
        kind = array.dtype
        if kind.kind not in "fiub":
            raise TypeError(f"predictor must give numbers, got dtype {kind}")
        array = array.astype(np.float64)
    if array.shape not in ((rows,), (rows, 1)) and array.size * rows != 1:
        raise ValueError(
            f"predictor called as {adapter} must give shape ({rows},), got {array.shape}"
        )
    return array.reshape(rows), kind
