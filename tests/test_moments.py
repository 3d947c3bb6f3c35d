"""Moments of hard columns, in any split, are the exact ones."""

from __future__ import annotations

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
    parts = [Moments.of(part) for part in values.split(sizes)]
    found = parts[0]
    for part in parts[1:]:
        found = found.merged(part)
    return found


@pytest.mark.parametrize("sizes", [[700], [1, 699], [100] * 7, [350, 0, 350], [1] * 700])
def test_moments_of_any_split_are_exact(sizes: list[int]) -> None:
    found = merged(torch.from_numpy(np.stack(list(COLUMNS.values()), 1)), sizes)
    for j, (name, values) in enumerate(COLUMNS.items()):
        mean, std = exact(values)
        # The error of a mean is that of a sum of numbers of the size of the spread and the mean.
        assert float(found.mean[j]) == pytest.approx(mean, rel=1e-12, abs=1e-14 * std), name
        assert float(found.std[j]) == pytest.approx(std, rel=1e-12, abs=0.0), name
        assert found.count == len(values), name


def test_no_rows_have_no_spread_and_leave_others_as_they_are() -> None:
    none = Moments.of(torch.empty(0, 1))
    assert (none.count, none.mean.item()) == (0, 0.0)
    assert none.std.item() == none.merged(none).std.item() == 0.0
    some = Moments.of(torch.from_numpy(1e-200 * NORMAL[:, None]))
    for both in (none.merged(some), some.merged(none)):
        assert both.mean.item() == pytest.approx(some.mean.item(), rel=1e-15)
        assert both.std.item() == some.std.item()


def test_float32_is_summed_in_float64() -> None:
    values = torch.from_numpy((1e4 + NORMAL).astype(np.float32))[:, None]
    mean, std = exact(values[:, 0].double().numpy())
    found = Moments.of(values)
    assert found.mean.item() == pytest.approx(mean, rel=1e-14)
    assert found.std.item() == pytest.approx(std, rel=1e-12)
