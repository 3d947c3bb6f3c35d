"""Base noise."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.prediction.base_samples import BaseSamples


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
