"""Base noise, blocks and sums that make predictions rise exactly."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pyro_gcm.distributions.event_planes import coarse
from pyro_gcm.prediction.base_samples import (
    BLOCK_ROWS,
    PASS,
    BaseSamples,
    in_blocks,
    pairwise_mean,
    row_blocks,
)


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


def test_noise_follows_the_type_and_the_state_of_its_module() -> None:
    noise = BaseSamples(64, 3).double()
    assert noise().dtype == noise(128).dtype == torch.float64
    assert set(noise.state_dict()) == {"samples", "_extra_state"}


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 200])
@pytest.mark.parametrize("draws", [1, PASS // BLOCK_ROWS // 3, 10 * PASS])
def test_rows_come_in_whole_blocks_as_many_as_a_pass_allows(rows: int, draws: int) -> None:
    values = torch.arange(float(rows)).unsqueeze(-1)
    places, parts = zip(*row_blocks(values, draws=draws), strict=True)
    sizes = {len(part) for (part,) in parts}
    assert all(size % BLOCK_ROWS == 0 for size in sizes)
    assert max(sizes) <= max(BLOCK_ROWS, PASS // draws)
    for place, (part,) in zip(places, parts, strict=True):
        own = values[place]
        assert torch.equal(part[: len(own)], own)
        assert (part[len(own) :] == own[-1]).all()
    assert [row for place in places for row in range(rows)[place]] == list(range(rows))
    seen: list[int] = []

    def double(a: Tensor, b: Tensor) -> Tensor:
        seen.append(len(a))
        return (a + b)[:, 0]

    assert torch.equal(in_blocks(double, values, values, draws=draws), 2.0 * values[:, 0])
    assert set(seen) == sizes


@pytest.mark.parametrize("count", [1, 2, 3, 16, 37, 128])
def test_pairwise_mean_is_the_mean_in_one_order(count: int) -> None:
    values = torch.rand(count, 50, dtype=torch.float64)
    mean = pairwise_mean(values)
    torch.testing.assert_close(mean, values.mean(0), rtol=1e-14, atol=0)
    strided = torch.rand(50, count, dtype=torch.float64).T.copy_(values)
    assert torch.equal(pairwise_mean(strided), mean)
    assert torch.equal(pairwise_mean(values[:, 7:8])[0], mean[7])


def test_pairwise_mean_rises_with_every_value() -> None:
    values = torch.rand(37, 2000, dtype=torch.float64)
    higher = values.clone()
    index = torch.randint(37, (1, 2000))
    higher.scatter_(0, index, torch.nextafter(values, torch.tensor(2.0).double()).gather(0, index))
    assert (pairwise_mean(higher) >= pairwise_mean(values)).all()


SPECIAL = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, 1e-300, 0.1, 1e300, math.inf, -math.inf],
    dtype=torch.float64,
)


def test_coarse_values_are_close_and_of_the_same_sign() -> None:
    values = torch.cat([SPECIAL, torch.randn(2000, dtype=torch.float64).exp()])
    rounded = coarse(values)
    normal = values.isfinite() & (values.abs() > 1e-300)
    relative = (rounded / values)[normal]
    assert ((relative <= 1.0) & (relative > 1.0 - 2.0**-40)).all()
    assert torch.equal(rounded[values.isinf()], values[values.isinf()])
    assert torch.equal(coarse(rounded), rounded)
    assert coarse(torch.tensor(1.0 - 2.0**-53, dtype=torch.float64)) < 1.0
    assert torch.equal(coarse(values.reshape(-1, 1).T), rounded.reshape(1, -1))


def test_coarse_values_keep_their_order_and_stand_apart() -> None:
    start = torch.cat([SPECIAL[:-2], torch.randn(3000, dtype=torch.float64)])
    up = torch.nextafter(start, torch.full_like(start, math.inf))
    a, b = coarse(start), coarse(up)
    assert (b >= a).all()
    # Chains that cross the grid: neighbours on it are 2^-42 of their size apart, or equal.
    ladder = 1.0 + torch.arange(20_000, dtype=torch.float64) * 2.0**-52
    steps = coarse(ladder).unique().diff()
    assert (steps >= 2.0**-42).all()
    assert len(steps) > 5


def test_coarse_leaves_single_precision_alone() -> None:
    values = torch.randn(100)
    assert coarse(values) is values
