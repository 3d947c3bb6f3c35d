"""Blocks, products and sums in which a row has the same bits wherever it stands, and base noise."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pyro_gcm.nets.networks import Linear, block_rows, linear, with_even_rows
from pyro_gcm.prediction.base_samples import BaseSamples
from pyro_gcm.prediction.draws import mean_of_draws

BLOCK = block_rows(torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 3, 5, 6, 9, 14, 33])
@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("draws", [(), (1,), (7,)], ids=str)
def test_a_row_has_the_same_bits_anywhere(
    draws: tuple[int, ...], columns: int, width: int, dtype: torch.dtype
) -> None:
    layer = with_even_rows(nn.Linear(columns, width)).to(dtype)
    assert type(layer) is Linear
    rows = torch.randn(*draws, 4 * BLOCK, columns, dtype=dtype)
    with torch.no_grad():
        wanted = layer(rows)
        torch.testing.assert_close(wanted, rows @ layer.weight.T + layer.bias)
        plain = linear(rows, layer.weight)
        torch.testing.assert_close(plain, rows @ layer.weight.T)
        parts = torch.cat([layer(part) for part in rows.split(BLOCK, -2)], -2)
        assert torch.equal(parts, wanted)
        for shift in (1, 2, 3, 5, 16, 31, 33, 77):
            assert torch.equal(layer(rows.roll(shift, -2)), wanted.roll(shift, -2))


@pytest.mark.parametrize("count", [1, 2, 3, 16, 37, 128])
def test_mean_of_draws_is_the_mean_in_one_order(count: int) -> None:
    values = torch.rand(count, 50, dtype=torch.float64)
    mean = mean_of_draws(values)
    torch.testing.assert_close(mean, values.mean(0), rtol=1e-14, atol=0)
    strided = torch.rand(50, count, dtype=torch.float64).T.copy_(values)
    assert torch.equal(mean_of_draws(strided), mean)
    assert torch.equal(mean_of_draws(values[:, 7:8])[0], mean[7])
    alike = torch.full_like(values, 1.0 / count)
    torch.testing.assert_close(mean_of_draws(values, alike), mean, rtol=1e-14, atol=0)


def test_mean_of_draws_rises_with_every_value() -> None:
    values = torch.rand(37, 2000, dtype=torch.float64)
    higher = values.clone()
    index = torch.randint(37, (1, 2000))
    higher.scatter_(0, index, torch.nextafter(values, torch.tensor(2.0).double()).gather(0, index))
    assert (mean_of_draws(higher) >= mean_of_draws(values)).all()


@pytest.mark.parametrize("dim", [1, 4, 9])
def test_noise_is_standard_normal_and_spread_more_evenly_than_draws(dim: int) -> None:
    noise = BaseSamples(1024, dim, seed=3)()
    assert noise.shape == (1024, 1, dim)
    noise = noise[:, 0]
    assert noise.isfinite().all()
    assert (noise.mean(0).abs() < 0.005).all()  # independent draws: 0.03
    assert ((noise.var(0) - 1.0).abs() < 0.02).all()
    covariance = torch.cov(noise.T).reshape(dim, dim)
    assert ((covariance - torch.eye(dim)).abs() < 0.03).all()


def test_noise_depends_on_its_seed_alone() -> None:
    torch.manual_seed(1)
    a = BaseSamples(64, 3, seed=5)
    torch.manual_seed(2)
    b = BaseSamples(64, 3, seed=5)
    assert torch.equal(a(), b())
    assert torch.equal(a(), a(64))
    assert not torch.equal(a(), BaseSamples(64, 3, seed=6)())


def test_other_numbers_of_samples_are_pieces_of_one_sequence() -> None:
    noise = BaseSamples(64, 3)
    assert torch.equal(noise(32), noise()[:32])
    assert torch.equal(noise(512)[:64], noise())
