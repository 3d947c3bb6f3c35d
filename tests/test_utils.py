"""Checks of input, moments of hard columns, and the inverse of a non-decreasing function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

from pyro_gcm._utils import validation as check
from pyro_gcm._utils.bisection import REACH, smallest_reaching
from pyro_gcm._utils.standardizer import Moments

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


def test_numbers_of_every_type_are_accepted_and_others_refused() -> None:
    for value in (3, 3.0, np.int64(3), np.float32(3.0)):
        result = check.positive_int("size", value)
        assert (result, type(result), check.positive("rate", value)) == (3, int, 3.0)
    for value in (0, "3", None, True, math.nan, math.inf, [3], 3j):
        for refuse, kind in (
            (check.positive_int, "an integer of"),
            (check.positive, "a number ab"),
        ):
            with pytest.raises(ValueError, match=f"n must be {kind}"):
                refuse("n", value)


# The inverse of a non-decreasing function


def counted(function: Callable[[Tensor], Tensor]) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    calls: list[int] = []

    def counting(v: Tensor) -> Tensor:
        calls.append(len(v))
        return function(v)

    return counting, calls


def test_the_smallest_number_of_the_type_is_found_at_steps_and_far_away() -> None:
    steps = torch.tensor([-9e5, -1234.5, -0.1, 0.0, 1e-9, 77.7, 4e5], dtype=torch.float64) + 1 / 3
    zero, one = torch.zeros(7).double(), torch.ones(7).double()
    for dtype in (torch.float32, torch.float64):

        def function(v: Tensor) -> Tensor:
            return torch.sigmoid(v - steps) + (v >= steps).double()

        smallest = smallest_reaching(function, 1.0, zero, one, dtype)
        assert smallest.dtype == dtype
        assert (smallest.double() >= steps).all()
        below = torch.nextafter(smallest, torch.full_like(smallest, -math.inf))
        assert (below.double() < steps).all()
    far = smallest_reaching(lambda v: (v >= 8.0 * REACH).double(), 0.5, zero, one)
    assert (far == math.inf).all()
    always = smallest_reaching(lambda v: torch.ones_like(v), 0.5, zero, one)
    assert (always == -math.inf).all()


def test_smooth_functions_take_few_evaluations_and_hard_ones_end() -> None:
    loc = torch.linspace(-3.0, 5.0, 50, dtype=torch.float64)
    scale = torch.linspace(0.1, 2.0, 50, dtype=torch.float64)
    for level in (1e-9, 0.3, 0.999):
        function, calls = counted(lambda v: torch.special.ndtr((v - loc) / scale))
        smallest = smallest_reaching(function, level, torch.zeros_like(loc), torch.ones_like(loc))
        wanted = loc + scale * torch.special.ndtri(torch.tensor(level, dtype=torch.float64))
        # Near 1e-9 a step of ndtr, which adds 1, is 2e-8 wide.
        torch.testing.assert_close(smallest, wanted, rtol=1e-9, atol=1e-7)
        assert (function(smallest) >= level).all()
        assert len(calls) <= 54  # bisection: 64; how flat a step of ndtr is decides a few
    shapes: list[Callable[[Tensor], Tensor]] = [
        lambda v: (v - 0.3) ** 21,
        lambda v: (v - 0.3).sign() * (v - 0.3).abs() ** 0.05,
        lambda v: torch.floor(v * 7.0) / 7.0 - 0.2,
        lambda v: 1e300 * (v >= 0.3).double() - 1e-300,
    ]
    for shape in shapes:
        function, calls = counted(shape)
        smallest = smallest_reaching(function, 0.0, torch.zeros(1), torch.ones(1))
        assert function(smallest) >= 0.0
        assert len(calls) < 110
        if shape is not shapes[0]:  # which is flat at its root
            assert function(smallest - 1e-12) < 0.0


# Moments of hard columns, in any split, are the exact ones

NORMAL = np.random.default_rng(0).standard_normal(700)
COLUMNS = {
    "plain": NORMAL,
    "far": 1e8 + NORMAL,
    "large": 1e200 * NORMAL,
    "largest": np.where(NORMAL > 0.0, 2.0**1000, -(2.0**1000)),
    "small": 1e-200 * NORMAL,
    "zeros, then small": np.where(np.arange(700) < 350, 0.0, 1e-200 * NORMAL),
    "small, then large": np.where(np.arange(700) < 350, 1e-200, 1e200) * NORMAL,
    "constant": np.full(700, 0.1),
    "zero": np.zeros(700),
}


def exact(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation."""
    known = [Fraction(v) for v in values.tolist()]
    mean = sum(known) / len(known)
    variance = sum((v - mean) ** 2 for v in known) / len(known)
    with mp.workdps(60):
        std = mp.sqrt(mpf(variance.numerator) / mpf(variance.denominator))
        return float(mean), float(std)


def merged(values: Tensor, sizes: list[int]) -> Moments:
    return functools.reduce(Moments.merged, map(Moments.of, values.split(sizes)))


def test_moments_of_any_split_are_exact() -> None:
    columns = torch.from_numpy(np.stack(list(COLUMNS.values()), 1))
    wanted = {name: exact(values) for name, values in COLUMNS.items()}
    for sizes in ([700], [1, 699], [100] * 7, [350, 0, 350], [1] * 700):
        moments = merged(columns, sizes)
        assert moments.count == 700
        for j, (name, (mean, std)) in enumerate(wanted.items()):
            # The error of a mean is that of a sum of numbers of the size of spread and mean.
            close = pytest.approx(mean, rel=1e-12, abs=1e-14 * std)
            assert float(moments.mean[j]) == close, (name, len(sizes))
            assert float(moments.std[j]) == pytest.approx(std, rel=1e-12, abs=0.0), name
