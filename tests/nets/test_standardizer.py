"""Standardisation: scale, constant columns, columns far from 0, and the inverse."""

from __future__ import annotations

import itertools

import torch

from pyro_gcm.nets import Standardizer


def learned(values: torch.Tensor) -> Standardizer:
    standardizer = Standardizer(values.shape[1])
    standardizer.learn(values)
    return standardizer


def test_units_are_learned_anew_saved_with_the_module_and_inverted_in_both_precisions() -> None:
    values = torch.randn(200, 3, dtype=torch.float64) * 5.0 - 40.0
    standardizer = Standardizer(3)
    assert torch.equal(standardizer(values), values.float())  # initially the identity
    standardizer.learn(10.0 * values)
    standardizer.learn(values)
    assert torch.equal(standardizer(values), learned(values)(values))
    copy = Standardizer(3)
    copy.load_state_dict(standardizer.state_dict())
    assert torch.equal(copy(values), standardizer(values))
    assert list(standardizer.parameters()) == []
    back = standardizer.inverse(standardizer(values))
    torch.testing.assert_close(back, values.float(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(copy.double().inverse(copy(values)), values)
    rising = torch.linspace(-1e4, 1e4, 5001).unsqueeze(-1).expand(-1, 3)
    assert (standardizer(rising).diff(dim=0) > 0.0).all()


def test_a_number_is_the_same_in_every_type_and_order_is_kept_between_them() -> None:
    single = (torch.randn(2000, 3) * 6.0 - 4.0).float()
    standardizer = learned(single)
    assert torch.equal(standardizer(single), standardizer(single.double()))
    between = torch.nextafter(single, single + 1.0).double().add(single.double()).div(2.0)
    assert (standardizer(between) >= standardizer(single)).all()


def test_constant_column_keeps_scale_one() -> None:
    types = torch.float32, torch.float64
    for constant, dtype, rows in itertools.product((0.0, 0.1, -1e9, 1e-12), types, (1, 1000)):
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
