"""Checks of user input, whose errors name the argument, its value and the expected one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import _validation as check

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], dtype=object),
        [[1.0, 2.0], [3.0, 4.0]],
        pd.DataFrame({"a": [1.0, 3.0], "b": [2, 4]}),
        pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": pd.array([2, 4], dtype="Int8")}),
        np.array([[3.0, 4.0], [1.0, 2.0]])[::-1],
        np.array([[2.0, 1.0], [4.0, 3.0]], dtype=np.float32)[:, ::-1],
    ],
    ids=["tensor", "ints", "objects", "lists", "frame", "nullable frame", "reversed", "mirrored"],
)
def test_every_type_of_array_becomes_the_same_matrix(value: Any) -> None:
    matrix = check.matrix("x", value, 2, "x_dim", CPU)
    assert matrix.dtype in (torch.float32, torch.float64)
    assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_given_array_may_be_read_only_and_is_not_changed() -> None:
    array = np.arange(4.0).reshape(2, 2)
    array.flags.writeable = False
    tensor = check.as_tensor("x", array)
    tensor += 1.0
    assert array.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_floating_point_dtypes_are_kept_and_others_become_float64() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert check.as_tensor("x", torch.zeros(2, dtype=dtype)).dtype == dtype
    for dtype in (torch.int8, torch.int64, torch.uint8, torch.bool):
        assert check.as_tensor("x", torch.ones(2, dtype=dtype)).dtype == torch.float64
    assert check.as_tensor("x", [2**40 + 1]).item() == 2**40 + 1  # exactly


def test_data_have_no_gradients() -> None:
    assert not check.as_tensor("x", torch.zeros(2, requires_grad=True)).requires_grad


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("rows.csv", "x must be a numeric array or tensor, got str"),
        ([["a", "b"]], "x must be a numeric array or tensor, got list"),
        (np.array(["1.5", "2"], dtype=object), "x must be a numeric array or tensor, got ndarray"),
        (pd.DataFrame({"a": ["u", "v"]}), "x must be a numeric array or tensor, got DataFrame"),
        (None, "x must be a numeric array or tensor, got NoneType"),
        ([[1.0], [1.0, 2.0]], "x must be a numeric array or tensor, got list"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "x must be a numeric array"),
        (np.array([1j]), "x must be real, got dtype torch.complex128"),
        (torch.ones(2, 2).to_sparse(), "x must be dense, got layout torch.sparse_coo"),
    ],
    ids=["path", "str", "numerals", "frame", "none", "ragged", "dates", "complex", "sparse"],
)
def test_other_types_are_refused(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check.as_tensor("x", value)


def test_tensor_on_another_device_is_refused() -> None:
    with pytest.raises(ValueError, match="x is on device meta, where tensors have no values"):
        check.as_tensor("x", torch.zeros(2, device="meta"), CPU)
    with pytest.raises(ValueError, match="x is on device meta, where tensors have no values"):
        check.as_tensor("x", torch.zeros(2, device="meta"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(3, 5), "x has 5 columns, the model was built for x_dim=2"),
        (torch.zeros(3), r"x must have shape \[rows, 2\], got shape \(3,\)"),
        (torch.zeros(3, 2, 1), r"x must have shape \[rows, 2\], got shape \(3, 2, 1\)"),
        (torch.tensor(1.0), r"x must have shape \[rows, 2\], got shape \(\)"),
        (torch.zeros(0, 2), "x has no rows, at least one is needed"),
        (torch.tensor([[0.0, 1.0], [math.nan, -math.inf]]), "finite, got 2 NaN .* first in row 1"),
    ],
    ids=["columns", "vector", "cube", "scalar", "no rows", "not finite"],
)
def test_invalid_matrices_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check.matrix("x", value, 2, "x_dim")


def test_vector_may_be_a_single_column() -> None:
    assert check.vector("y", [1, 0]).tolist() == [1.0, 0.0]
    assert check.vector("y", torch.zeros(4, 1)).shape == (4,)
    assert check.vector("y", pd.DataFrame({"label": [1, 0]})).tolist() == [1.0, 0.0]
    for wrong in (torch.zeros(4, 2), torch.zeros(1, 4), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"y must have shape \[rows\], got shape"):
            check.vector("y", wrong)
    with pytest.raises(ValueError, match=r"y must be finite, got 1 NaN.* in row 1"):
        check.vector("y", pd.Series([1, None], dtype="Int64"))
    with pytest.raises(ValueError, match="y has no rows"):
        check.vector("y", [])


def test_different_row_counts_are_listed() -> None:
    check.same_rows(x=torch.zeros(3, 1), y=torch.zeros(3))
    check.same_rows()
    with pytest.raises(ValueError, match="row counts differ: x has 3, r has 3, y has 4"):
        check.same_rows(x=torch.zeros(3, 1), r=torch.zeros(3, 2), y=torch.zeros(4))


def test_one_of_lists_the_names() -> None:
    check.one_of("prior", "a", ["a", "b"])
    with pytest.raises(ValueError, match=r"prior must be one of \['a', 'b'\], got 'c'"):
        check.one_of("prior", "c", ["a", "b"])


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3.0)], ids=repr)
def test_integral_values_of_every_type_are_accepted(value: Any) -> None:
    result = check.positive_int("size", value)
    assert (result, type(result)) == (3, int)
    assert check.positive("rate", value) == 3.0


@pytest.mark.parametrize("value", [0, -1, "3", None, True, math.nan, math.inf, [3], 3j], ids=repr)
def test_other_numbers_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="size must be an integer of at least 1, got"):
        check.positive_int("size", value)
    with pytest.raises(ValueError, match="rate must be a number above 0, got"):
        check.positive("rate", value)


def test_minimum_of_an_integer_can_be_chosen_and_fractions_are_refused() -> None:
    assert check.positive_int("seed", 0, minimum=0) == 0
    for value in (-1, 2.5):
        with pytest.raises(ValueError, match=f"seed must be an integer of at least 0, got {value}"):
            check.positive_int("seed", value, minimum=0)
    assert check.positive("rate", 0.5) == 0.5
