"""Standardisation: scale, constant columns, columns far from 0, and the inverse."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.nets import Standardizer


def learned(values: torch.Tensor) -> Standardizer:
    standardizer = Standardizer(values.shape[1])
    standardizer.learn(values)
    return standardizer


def test_it_is_initially_the_identity() -> None:
    values = torch.randn(5, 3)
    assert torch.equal(Standardizer(3)(values), values)


def test_columns_have_mean_zero_and_standard_deviation_one() -> None:
    values = torch.randn(500, 3, dtype=torch.float64) * torch.tensor([1e-6, 1.0, 1e6]) + 3.0
    standard = learned(values)(values)
    assert standard.dtype == torch.float32
    torch.testing.assert_close(standard.mean(0), torch.zeros(3), rtol=0, atol=0.15)
    torch.testing.assert_close(standard[:, 1:].mean(0), torch.zeros(2), rtol=0, atol=1e-5)
    torch.testing.assert_close(standard.std(0, correction=0), torch.ones(3), rtol=1e-5, atol=0)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e9, 1e-12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("rows", [1, 1000])
def test_constant_column_keeps_scale_one(rows: int, dtype: torch.dtype, constant: float) -> None:
    values = torch.full((rows, 1), constant, dtype=dtype)
    standardizer = learned(values)
    assert standardizer.scale.item() == 1.0
    assert standardizer(values).isfinite().all()
    assert standardizer(values + 2.0).isfinite().all()


def test_column_far_from_zero_keeps_its_precision() -> None:
    # Seconds since 1970 over three hours, which float32 resolves to two minutes.
    seconds = 1.7e9 + torch.arange(10_000, dtype=torch.float64).unsqueeze(-1)
    standardizer = learned(seconds)
    standard = standardizer(seconds)
    assert standard.dtype == torch.float32
    step = 1.0 / standardizer.scale.item()
    torch.testing.assert_close(standard.diff(dim=0), torch.full((9999, 1), step), rtol=1e-2, atol=0)
    assert standard.mean().abs() < 0.05
    rounded_first = standardizer(seconds.float())
    assert (rounded_first.diff(dim=0) == 0.0).double().mean() > 0.9


def test_order_of_revenues_is_preserved() -> None:
    standardizer = learned(torch.randn(100, 1) * 7.0 + 100.0)
    rising = torch.linspace(-1e4, 1e4, 5001).unsqueeze(-1)
    assert (standardizer(rising).diff(dim=0) > 0.0).all()


def test_inverse_returns_the_units_of_the_data() -> None:
    values = torch.randn(200, 3, dtype=torch.float64) * 5.0 - 40.0
    standardizer = learned(values).double()
    torch.testing.assert_close(standardizer.inverse(standardizer(values)), values)
    single = learned(values)
    back = single.inverse(single(values))
    torch.testing.assert_close(back, values.float(), rtol=1e-6, atol=1e-5)


def test_units_are_saved_with_the_module() -> None:
    values = torch.randn(200, 3) + 4.0
    standardizer = learned(values)
    copy = Standardizer(3)
    copy.load_state_dict(standardizer.state_dict())
    assert torch.equal(copy(values), standardizer(values))
    assert list(standardizer.parameters()) == []
    assert standardizer.double()(values).dtype == torch.float64


def test_learning_again_replaces_the_units() -> None:
    standardizer = learned(torch.randn(50, 2) * 10.0)
    values = torch.randn(50, 2) + 5.0
    standardizer.learn(values)
    assert torch.equal(standardizer(values), learned(values)(values))
