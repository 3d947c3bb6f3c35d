"""What users are told: checks of input, whose errors name the argument, and warnings."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import in_transform

ArrayLike = Any  # tensor, numpy array, DataFrame, nested list: what torch.as_tensor can take
#: Largest size of a number in data, so that differences and sums of them are finite.
LARGEST = 2.0**1000


class InvalidValue(ValueError):
    """A value that is refused, and where it is.

    :param message: what is wrong, in words that "in row 3" can follow.
    :param row: counted from 0, as Python does; rows of a file are counted from 1.
    :param column: its name or number, of a matrix.
    :param argument: whose value it is; empty where messages name it alone.
    """

    def __init__(
        self, message: str, row: int, column: str | int | None = None, argument: str = ""
    ) -> None:
        super().__init__(message, row, column, argument)
        self.message, self.row, self.argument = message, row, argument
        self.column: Any = column

    def __str__(self) -> str:
        return f"{self.message} in {place(self.row, self.column)}"


def place(row: int, column: str | int | None) -> str:
    """Where a value is, in words."""
    return f"row {row}" if column is None else f"row {row}, column {column!r}"


# Data


def as_tensor(name: str, value: ArrayLike, device: torch.device | None = None) -> Tensor:
    """Convert a value to a real tensor in float32 or float64 without gradient.

    Half precision becomes float32, which holds it exactly, and all other numbers become float64.

    :param device: where the tensor is moved to; by default it stays where it is.
    :raises TypeError: if the value is not a real, dense, numeric array.
    """
    if isinstance(value, Tensor):
        tensor = value.detach()
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            tensor = tensor.clone()  # with which training can go on
    else:
        try:
            tensor = torch.as_tensor(_as_array(value))
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise TypeError(
                f"{name} must be a numeric array or tensor, got {type(value).__name__}: {error}"
            ) from error
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise TypeError(f"{name} must be real and dense, got {tensor.dtype}, {tensor.layout}")
    exact = tensor.is_floating_point() and tensor.itemsize > 2
    kind = torch.float32 if tensor.is_floating_point() else torch.float64
    return tensor.to(device, tensor.dtype if exact else kind)


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    """An array that torch can convert: writable, without negative strides or Python objects."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        value = np.ma.filled(value.astype(np.float64), math.nan)
    array = np.asarray(value)
    if array.dtype.kind in "OSU":  # as of a DataFrame with columns of different types
        values = [
            math.nan if type(v).__name__ == "NAType" else v for v in array.astype(object).flat
        ]
        array = np.array(values, dtype=np.float64).reshape(array.shape)
    elif not array.dtype.isnative or array.dtype == np.longdouble:
        array = array.astype(np.float64)
    return np.require(array, requirements=["C_CONTIGUOUS", "WRITEABLE"])


def without_tensor(value: Any) -> Any:
    """The value, a list in place of a tensor, of which numpy does not read each type."""
    return value.tolist() if isinstance(value, Tensor) else value


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The common shape, as of `torch.broadcast_shapes`, whose first call imports sympy (0.5 s).

    :raises ValueError: if the shapes do not broadcast.
    """
    return torch.Size(np.broadcast_shapes(*shapes))


def column_names(value: Any) -> list[str] | None:
    """The names of the columns of a DataFrame, if all are text."""
    names = getattr(value, "column_names", getattr(value, "columns", None))  # Arrow has both
    if names is None or isinstance(value, Tensor):
        return None
    return list(names) if all(isinstance(name, str) for name in names) else None


def matrix(
    name: str,
    value: ArrayLike,
    columns: int,
    argument: str,
    device: torch.device | None = None,
) -> Tensor:
    """Convert a value to a finite tensor [rows, columns].

    :param columns: required number of columns.
    :param argument: name of the model's argument that sets this number, for the error message.
    :raises ValueError: for wrong shapes, no rows, or values that are not finite.
    """
    tensor = as_tensor(name, value, device)
    if tensor.dim() != 2:
        raise ValueError(
            f"{name} must have shape [rows, {columns}], got shape {tuple(tensor.shape)}"
        )
    if tensor.shape[1] != columns:
        raise ValueError(
            f"{name} has {tensor.shape[1]} columns, the model was built for {argument}={columns}"
        )
    return _finite_rows(name, tensor, value)


def vector(name: str, value: ArrayLike, device: torch.device | None = None) -> Tensor:
    """Convert a value to a finite tensor [rows]; a single column [rows, 1] is flattened.

    :raises ValueError: for wrong shapes, no rows, or values that are not finite.
    """
    tensor = as_tensor(name, value, device)
    if tensor.dim() == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.dim() != 1:
        raise ValueError(f"{name} must have shape [rows], got shape {tuple(tensor.shape)}")
    return _finite_rows(name, tensor)


def _finite_rows(name: str, tensor: Tensor, given: Any = None) -> Tensor:
    """The tensor, which must have rows and finite values.

    :param given: what it was made of, whose columns may have names.
    """
    if len(tensor) == 0:
        raise ValueError(f"{name} has no rows, at least one is needed")
    if in_transform():
        return tensor
    largest = min(LARGEST, torch.finfo(tensor.dtype).max)
    least, most = tensor.aminmax() if tensor.numel() else (0.0, 0.0)
    if not (-largest <= least and most <= largest):  # both are NaN where a value is
        first = (tensor.abs() <= largest).logical_not().nonzero()[0].tolist()
        value = float(tensor[tuple(first)])
        rule = "must be finite"
        if math.isfinite(value):
            rule = f"must have numbers of at most {LARGEST:.0e} in size (use another unit)"
        row, column = (*first, None)[:2]
        columns = column_names(given)
        named = columns[column] if columns and column is not None else column
        raise InvalidValue(f"{name} {rule}, got {value:g}", row, named, name)
    return tensor


def same_rows(**columns: Sized) -> None:
    """Check that tensors, or arrays, have the same number of rows."""
    if len(set(map(len, columns.values()))) > 1:
        counts = ", ".join(f"{name} has {len(each)}" for name, each in columns.items())
        raise ValueError(f"row counts differ: {counts}")


def full_precision(model: object) -> None:
    """Check that a module has its parameters in float32 or float64.

    :raises TypeError: for another type.
    """
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if first is not None and first.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"model must have parameters in float32 or float64, got {first.dtype}: call "
            "model.float()"
        )


def checked_data(
    model: Any,
    x: ArrayLike | None,
    r: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    required: Collection[str] = (),
    device: torch.device | None = None,
) -> dict[str, Tensor]:
    """The columns that are given, as tensors, in the order in which programs take them.

    :param required: which of "x", "r" and "y" must not be None.
    :param device: where the columns are moved to; by default they stay where they are.
    :raises ValueError: for wrong shapes or values.
    :raises TypeError: for a model in half precision.
    """
    full_precision(model)
    data, looks = {}, not in_transform()
    if x is not None or "x" in required:
        data["x"] = matrix("x", x, model.x_dim, "x_dim", device)
    if r is not None or "r" in required:
        data["r"] = matrix("r", r, model.r_dim, "r_dim", device)
        if looks:
            model.response.check_revenue(data["r"])
    if y is not None or "y" in required:
        data["y"] = model.response.outcome(y, device)
        if looks:
            model.response.check_outcome(data["y"])
    same_rows(**data)
    return data


# Options


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Check that `value` is one of the names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {shown(value)}")


def positive_int(name: str, value: Any, minimum: int = 1) -> int:
    """Return the value as an integer, which must be at least `minimum`."""
    wanted = f"an integer of at least {minimum}"
    return int(_fitting(name, value, wanted, lambda v: v >= minimum and v % 1 == 0))


def seed_of(value: Any) -> int:
    """Return a seed as torch and numpy take it."""
    wanted = "an integer of at least 0"
    return int(_fitting("seed", value, wanted, lambda v: 0 <= v < 2**64 and v % 1 == 0))


def positive(name: str, value: Any) -> float:
    """Return the value as a float, which must be finite and above 0."""
    return float(_fitting(name, value, "a number above 0", lambda v: v > 0.0))


def share(name: str, value: Any, wanted: str = "a number") -> float:
    """Return the value as a float, which must lie strictly between 0 and 1."""
    return float(_fitting(name, value, f"{wanted} in (0, 1)", lambda v: 0.0 < v < 1.0))


def number(name: str, value: Any, low: float = -math.inf) -> float:
    """Return the value as a finite float, which must be at least `low`."""
    wanted = "a finite number" if low == -math.inf else f"a finite number of at least {low:g}"
    return float(_fitting(name, value, wanted, lambda v: v >= low))


def _fitting(name: str, value: Any, wanted: str, fits: Callable[[Any], bool]) -> Any:
    """The value, which must be a finite number that fits."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not abs(value) < math.inf or not fits(value):
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}")
    return value


def kind(value: Any) -> str:
    """Describe a value in an error message: "the class X", or the name of its type."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def shown(value: Any) -> str:
    """A value in one line of an error message, or its type where it is too long."""
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else kind(value)


# Warnings

_INSIDE = ("pyro", "torch", "contextlib", "functools")  # "pyro" stands for pyro_gcm as well

_TOLD: ContextVar[set[str] | None] = ContextVar("told", default=None)


@contextmanager
def told_once() -> Iterator[None]:
    """Inside, `warn_user` says nothing twice: a fit of several models has one warning."""
    token = _TOLD.set(set() if (told := _TOLD.get()) is None else told)
    try:
        yield
    finally:
        _TOLD.reset(token)


def warn_user(message: str, about: str | None = None) -> None:
    """Warn at the innermost call that is not inside this package, Pyro or torch.

    :param about: of what nothing more is said inside `told_once`; the message by default.
    """
    told = _TOLD.get()
    if told is not None:
        if (about or message) in told:
            return
        told.add(about or message)
    level = 1
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
