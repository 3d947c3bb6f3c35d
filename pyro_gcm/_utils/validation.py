"""Checks of user input whose errors name the argument, its value and the expected one."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ArrayLike = Any  # tensor, numpy array, DataFrame, nested list: what torch.as_tensor can take
#: Largest size of a number in data, so that differences and sums of them are finite.
LARGEST = 2.0**1000


class WrongCell(ValueError):
    """A value that is refused, and where it is.

    :param message: what is wrong, in words that "in row 3" can follow.
    :param row: counted from 0, as Python does; rows of a file are counted from 1.
    :param column: of a matrix.
    :param name: of the column, if it has one.
    :param told: the message where this value alone is told of.
    :param argument: whose value it is; empty where messages name it alone.
    """

    def __init__(
        self,
        message: str,
        row: int,
        column: int | None = None,
        name: str | None = None,
        told: str = "",
        argument: str = "",
    ) -> None:
        super().__init__(message, row)
        self.message, self.row, self.column, self.name = message, row, column, name
        self.told, self.argument = told or message, argument

    def __str__(self) -> str:
        return f"{self.message} in {place(self.row, self.name or self.column)}"

    def after(self, rows: int) -> WrongCell:
        """The same where so many rows come before those in which it was found."""
        return WrongCell(self.message, self.row + rows, self.column, self.name)


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
            reason = _no_number(value) or error
            raise TypeError(
                f"{name} must be a numeric array or tensor, got {type(value).__name__}: {reason}"
            ) from error
    if tensor.is_complex():
        raise TypeError(f"{name} must be real, got dtype {tensor.dtype}")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got layout {tensor.layout}")
    if tensor.is_floating_point():
        return tensor.to(device, tensor.dtype if tensor.itemsize > 2 else torch.float32)
    return tensor.to(device, torch.float64)


def without_tensor(value: Any) -> Any:
    """The value, a list in place of a tensor, of which numpy does not read each type."""
    return value.tolist() if isinstance(value, Tensor) else value


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    """An array that torch can convert: writable, without negative strides or Python objects."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        value = np.ma.filled(value.astype(np.float64), math.nan)
    array = np.asarray(value)
    if not array.dtype.isnative or array.dtype == np.longdouble:
        array = array.astype(np.float64)
    # A DataFrame with columns of different types becomes an array of objects.
    if array.dtype == object and all(_is_number(v) for v in array.flat):
        values = [math.nan if _is_na(v) else v for v in array.flat]
        array = np.array(values, dtype=np.float64).reshape(array.shape)
    return np.require(array, requirements=["C_CONTIGUOUS", "WRITEABLE"])


def _is_na(value: Any) -> bool:
    """Whether it is `pandas.NA`."""
    return type(value).__name__ == "NAType"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.bool_) or _is_na(value)


def _no_number(value: Any) -> str:
    """Describe the values that are not numbers; empty if none can be named."""
    array = np.asarray(value, dtype=object)
    strange = [place for place, v in np.ndenumerate(array) if not _is_number(v)]
    if not strange or not array.ndim:
        return ""
    names = getattr(value, "columns", None)
    at = strange[0]
    where = (
        f"column {names[at[1]]!r}" if names is not None and len(at) == 2 else f"entry {list(at)}"
    )
    return (
        f"{where} has {array[at]!r}, which is no number; pyro_gcm.estimators take text, categories "
        "and labels as they are"
    )


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The common shape, as of `torch.broadcast_shapes`, whose first call imports sympy (0.5 s).

    :raises ValueError: if the shapes do not broadcast.
    """
    return torch.Size(np.broadcast_shapes(*shapes))


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
    _check_rows_and_finite(name, tensor, value)
    return tensor


def column_names(value: Any) -> list[str] | None:
    """The names of the columns of a DataFrame, if all are text."""
    names = getattr(value, "column_names", getattr(value, "columns", None))  # Arrow has both
    if names is None or isinstance(value, Tensor):
        return None
    return list(names) if all(isinstance(name, str) for name in names) else None


def names_of(
    argument: str, names: Sequence[str] | None, columns: Any, count: int, letter: str
) -> list[str]:
    """Names of columns: those that are given, those of a DataFrame, or a letter and a number.

    :raises ValueError: for another number of names.
    """
    if names is None and hasattr(columns, "columns"):
        names = [str(name) for name in columns.columns]
    if names is None:
        return [f"{letter}[{i}]" for i in range(count)]
    if len(names) != count:
        raise ValueError(f"{argument} must have {count} names, got {len(names)}")
    return [str(name) for name in names]


def vector(name: str, value: ArrayLike, device: torch.device | None = None) -> Tensor:
    """Convert a value to a finite tensor [rows]; a single column [rows, 1] is flattened.

    :raises ValueError: for wrong shapes, no rows, or values that are not finite.
    """
    tensor = as_tensor(name, value, device)
    if tensor.dim() == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.dim() != 1:
        raise ValueError(f"{name} must have shape [rows], got shape {tuple(tensor.shape)}")
    _check_rows_and_finite(name, tensor)
    return tensor


def same_rows(**tensors: Tensor) -> None:
    """Check that all tensors have the same number of rows."""
    if len(set(map(len, tensors.values()))) > 1:
        counts = ", ".join(f"{name} has {len(tensor)}" for name, tensor in tensors.items())
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
    data = {}
    if x is not None or "x" in required:
        data["x"] = matrix("x", x, model.x_dim, "x_dim", device)
    if r is not None or "r" in required:
        data["r"] = matrix("r", r, model.r_dim, "r_dim", device)
        model.response.check_revenue(data["r"])
    if y is not None or "y" in required:
        data["y"] = model.response.outcome(y, device)
        model.response.check_outcome(data["y"])
    same_rows(**data)
    return data


def row_blocks(tensor: Tensor) -> Sequence[Tensor]:
    """Blocks of rows, of about a million values each: work on them needs little memory."""
    return tensor.split(max(1, (1 << 20) * len(tensor) // max(1, tensor.numel())))


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Check that `value` is one of the names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {shown(value)}")


def positive_int(name: str, value: Any, minimum: int = 1) -> int:
    """Return the value as an integer, which must be at least `minimum`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not value >= minimum or value % 1:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {shown(value)}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return the value as a float, which must be finite and above 0."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a number above 0, got {shown(value)}")
    return float(value)


def kind(value: Any) -> str:
    """Describe a value in an error message: "the class X", or the name of its type."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def shown(value: Any) -> str:
    """A value in one line of an error message, or its type where it is too long."""
    try:
        text = "" if isinstance(value, Tensor | np.ndarray) else repr(value)
    except RecursionError:
        text = ""
    return text if 0 < len(text) <= 80 and "\n" not in text else kind(value)


def _check_rows_and_finite(name: str, tensor: Tensor, value: Any = None) -> None:
    """:param value: what the tensor was made of, whose columns may have names."""
    if len(tensor) == 0:
        raise ValueError(f"{name} has no rows, at least one is needed")
    largest = min(LARGEST, torch.finfo(tensor.dtype).max)
    fine = [rows.abs() <= largest for rows in row_blocks(tensor)]
    if not all(rows.all() for rows in fine):
        bad = torch.cat(fine).logical_not_().nonzero()
        first = bad[0].tolist()
        strange = float(tensor[tuple(first)])
        told = f"{name} must be finite, got"
        found = f"{len(bad)} NaN or infinite entries, the first"
        if math.isfinite(strange):
            limit = f"{LARGEST:.0e} in size (use another unit)"
            told, found = f"{name} must have numbers of at most {limit}, got", f"{strange:g}"
        names = column_names(value)
        row, column = (*first, None)[:2]
        of_column = names[column] if names and column is not None else None
        raise WrongCell(f"{told} {found}", row, column, of_column, f"{told} {strange:g}", name)


def place(row: int, column: str | int | None) -> str:
    """Where a value is, in words."""
    return f"row {row}" if column is None else f"row {row}, column {column!r}"


def flag(name: str, value: Any) -> bool:
    """Return True or False, of Python or numpy; text such as "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return the value as a finite float, which must lie in [low, high]."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not low <= value <= high or not abs(value) < math.inf:
        ends = {(False, False): "", (True, False): f" of at least {low:g}"}
        wanted = ends.get((low > -math.inf, high < math.inf), f" in [{low:g}, {high:g}]")
        raise ValueError(f"{name} must be a finite number{wanted}, got {shown(value)}")
    return float(value)


def share(name: str, value: Any, wanted: str = "a number") -> float:
    """Return the value as a float, which must lie strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be {wanted} in (0, 1), got {shown(value)}")
    return float(value)


def seed_of(value: Any) -> int:
    """Return a seed as torch and numpy take it."""
    whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value % 1 == 0)
    if not whole or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError(f"seed must be an integer of at least 0, got {shown(value)}")
    return int(value)
