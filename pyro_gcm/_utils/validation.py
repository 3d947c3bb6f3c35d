"""Checks of user input whose errors name the argument, its value and the expected one."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyro_gcm._utils.tensors import ArrayLike as ArrayLike
from pyro_gcm._utils.tensors import as_tensor as as_tensor

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


def columns_of_units(model: Any, x: ArrayLike, r: ArrayLike) -> tuple[Tensor, Tensor]:
    """Columns of which units are learned, as tensors."""
    return matrix("x", x, model.x_dim, "x_dim"), matrix("r", r, model.r_dim, "r_dim")


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
