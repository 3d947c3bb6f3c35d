"""Moments of hard columns, in any split, are the exact ones."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

from pyro_gcm._utils.standardizer import Moments

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


def test_no_rows_have_no_spread_and_float32_is_summed_in_float64() -> None:
    none = Moments.of(torch.empty(0, 1))
    assert (none.count, none.mean.item()) == (0, 0.0)
    assert none.std.item() == none.merged(none).std.item() == 0.0
    values = torch.from_numpy((1e4 + NORMAL).astype(np.float32))[:, None]
    mean, std = exact(values[:, 0].double().numpy())
    moments = Moments.of(values)
    assert moments.mean.item() == pytest.approx(mean, rel=1e-14)
    assert moments.std.item() == pytest.approx(std, rel=1e-12)
