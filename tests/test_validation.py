"""Checks of user input, whose errors name the argument, its value and the expected one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm._utils import validation as check

MATRICES = [
    torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    np.array([[1, 2], [3, 4]]),
    np.array([[1, 2], [3, 4]], dtype=object),
    [[1.0, 2.0], [3.0, 4.0]],
    pd.DataFrame({"a": [1.0, 3.0], "b": [2, 4]}),
    pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": pd.array([2, 4], dtype="Int8")}),
    np.array([[3.0, 4.0], [1.0, 2.0]])[::-1],
    np.array([[2.0, 1.0], [4.0, 3.0]], dtype=np.float32)[:, ::-1],
    np.array([[1.0, 2.0], [3.0, 4.0]], dtype=">f4"),
    np.array([[1, 2], [3, 4]], dtype=">i8"),
    np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.longdouble),
]


def test_every_type_of_array_becomes_the_same_matrix_and_loses_nothing() -> None:
    for value in MATRICES:
        matrix = check.matrix("x", value, 2, "x_dim", torch.device("cpu"))
        assert matrix.dtype in (torch.float32, torch.float64)
        assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    for dtype in (torch.float16, torch.bfloat16):
        ends = [torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal]
        half = check.as_tensor("x", torch.tensor(ends, dtype=dtype))
        assert (half.dtype, half.tolist()) == (torch.float32, ends)
    for dtype in (torch.int8, torch.int64, torch.uint8, torch.bool, torch.float64):
        assert check.as_tensor("x", torch.ones(2, dtype=dtype)).dtype == torch.float64
    assert check.as_tensor("x", [2**40 + 1]).item() == 2**40 + 1  # exactly
    assert not check.as_tensor("x", torch.zeros(2, requires_grad=True)).requires_grad
    array = np.arange(4.0)
    array.flags.writeable = False
    tensor = check.as_tensor("x", array)
    tensor += 1.0
    assert array.tolist() == [0, 1, 2, 3]
    for column in ([1, 0], [[1], [0]], pd.DataFrame({"label": [1, 0]})):
        assert check.vector("y", column).tolist() == [1.0, 0.0]


NUMERIC = "x must be a numeric array or tensor, got"
LONG = torch.zeros(130_000, 2)
LONG[90_000, 1] = LONG[120_000, 0] = math.nan
REFUSED: list[tuple[Any, str]] = [
    ([["a", "b"]], f"{NUMERIC} list"),
    (np.array(["1.5", "2"], dtype=object), f"{NUMERIC} ndarray"),
    (pd.DataFrame({"a": ["u", "v"]}), f"{NUMERIC} DataFrame"),
    ([[1.0], [1.0, 2.0]], f"{NUMERIC} list"),
    (np.array(["2020-01-01"], dtype="datetime64[D]"), "x must be a numeric array"),
    (torch.ones(2, 2).to_sparse(), "x must be real and dense, got torch.float32, torch.sparse_coo"),
    (torch.zeros(3), r"x must have shape \[rows, 2\], got shape \(3,\)"),
    (torch.zeros(3, 2, 1), r"x must have shape \[rows, 2\], got shape \(3, 2, 1\)"),
    ([[0.0, 1.0], [math.nan, -math.inf]], "x must be finite, got nan in row 1, column 0"),
    (LONG, "x must be finite, got nan in row 90000, column 1"),
]


def test_what_is_no_matrix_or_vector_is_refused_by_name() -> None:
    """Columns, rows and types that a model cannot use are in `tests/arguments`."""
    for value, message in REFUSED:
        with pytest.raises((TypeError, ValueError), match=message):
            check.matrix("x", value, 2, "x_dim")
    for shape in ((4, 2), (1, 4), ()):
        with pytest.raises(ValueError, match=r"y must have shape \[rows\], got shape"):
            check.vector("y", torch.zeros(shape))
    with pytest.raises(ValueError, match=r"y must be finite, got nan in row 1"):
        check.vector("y", pd.Series([1, None], dtype="Int64"))
    with pytest.raises(ValueError, match="row counts differ: x has 3, r has 3, y has 4"):
        check.same_rows(x=torch.zeros(3, 1), r=torch.zeros(3, 2), y=torch.zeros(4))


def test_numbers_of_every_type_are_accepted_and_others_refused() -> None:
    for value in (3, 3.0, np.int64(3), np.float32(3.0)):
        result = check.positive_int("size", value)
        assert (result, type(result)) == (3, int)
        assert check.positive("rate", value) == 3.0
    assert check.positive_int("seed", 0, minimum=0) == 0
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        check.positive_int("seed", -1, minimum=0)
    for value in (0, -1, "3", None, True, math.nan, math.inf, [3], 3j):
        with pytest.raises(ValueError, match="size must be an integer of at least 1, got"):
            check.positive_int("size", value)
        with pytest.raises(ValueError, match="rate must be a number above 0, got"):
            check.positive("rate", value)


def test_shapes_broadcast_as_in_torch() -> None:
    for shapes in (
        (),
        ((),),
        ((2,), (3, 1), (1, 1, 1)),
        ((0,), (1,)),
        ((5, 0), ()),
        ((2, 1), (1, 3)),
    ):
        assert check.broadcast_shapes(*shapes) == torch.broadcast_shapes(*shapes)
    for shapes in (((2,), (3,)), ((0,), (2,)), ((2, 1), (3, 2))):
        with pytest.raises(ValueError, match="shape"):
            check.broadcast_shapes(*shapes)
