"""The average of p(c | z) over draws of z: density, distribution function, moments and draws."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from samplers import DIFFERENT, agreement
from scipy import stats
from torch import Tensor

from pyro_gcm.distributions.latent_mixture import LatentMixture

families = pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace", "Gumbel"])


def mixture(
    batch_shape: tuple[int, ...] = (),
    event_shape: tuple[int, ...] = (1,),
    family: str = "Normal",
    count: int = 5,
) -> LatentMixture:
    full = (count, *batch_shape, *event_shape)
    loc = 2.0 * torch.randn(full, dtype=torch.float64)
    scale = torch.rand(full, dtype=torch.float64) + 0.3
    component = getattr(dist, family)(loc, scale).to_event(len(event_shape))
    units = torch.randn(event_shape[-1:]).double(), torch.rand(event_shape[-1:]).double() + 2.0
    return LatentMixture(component, *units)


@pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace"])
@pytest.mark.parametrize("event_shape", [(3,), (2, 3)], ids=["K", "G,K"])
def test_density_and_distribution_function_are_averages_in_the_units_of_the_data(
    event_shape: tuple[int, ...], family: str
) -> None:
    p_c = mixture((4,), event_shape, family)
    c = p_c.sample((6,))
    base = p_c.component.base_dist
    standard = ((c - p_c.loc) / p_c.scale).unsqueeze(1)  # [S, 1, B, (G,) K]
    event_dims = tuple(range(-len(event_shape), 0))
    joint = (base.log_prob(standard) - p_c.scale.log()).sum(event_dims).exp().mean(1)
    torch.testing.assert_close(p_c.log_prob(c), joint.log(), rtol=1e-10, atol=1e-10)
    below = base.cdf(standard).flatten(-len(event_shape)).prod(-1).mean(1)
    torch.testing.assert_close(p_c.cdf(c), below, rtol=1e-10, atol=1e-12)


def test_values_may_be_arrays() -> None:
    p_c, value = mixture(event_shape=(2,)), torch.tensor([0.5, 1.0], dtype=torch.float64)
    assert torch.equal(p_c.cdf(value.numpy()), p_c.cdf(value))
    assert torch.equal(p_c.log_prob(value.numpy()), p_c.log_prob(value))


def test_distribution_function_reaches_its_ends() -> None:
    p_c = mixture((4,), (2,))
    assert p_c.cdf(torch.full((4, 2), math.inf)).tolist() == [1.0] * 4
    assert p_c.cdf(torch.tensor([math.inf, -math.inf])).tolist() == [0.0] * 4


@families
def test_draws_follow_the_distribution_function(family: str, gumbel: type) -> None:
    p_c = mixture((3,), (1,), family)
    draws = p_c.sample((20_000,))
    for row in range(3):

        def cdf(c: object, row: int = row) -> Tensor:
            value = torch.as_tensor(c, dtype=torch.float64).reshape(-1, 1, 1)
            return p_c.cdf(value.expand(-1, 3, 1))[:, row].numpy()

        assert stats.kstest(draws[:, row, 0].numpy(), cdf).pvalue > DIFFERENT


def test_coordinates_of_a_draw_come_from_the_same_component() -> None:
    p_c = mixture((), (3,))
    which = torch.randint(5, (20_000,))
    one_by_one = dist.Normal(
        p_c.component.base_dist.loc[which], p_c.component.base_dist.scale[which]
    )
    direct = p_c.loc + p_c.scale * one_by_one.sample()
    draws = p_c.sample((20_000,))
    assert agreement(draws, direct) > DIFFERENT
    unrelated = torch.stack([c[torch.randperm(20_000)] for c in draws.T], 1)
    assert agreement(unrelated, direct) < DIFFERENT


@pytest.mark.parametrize("sample_shape", [(), (3,), (2, 5)], ids=str)
@pytest.mark.parametrize("batch_shape", [(), (4,), (4, 1)], ids=str)
@pytest.mark.parametrize("event_shape", [(3,), (2, 3)], ids=["K", "G,K"])
def test_shapes_are_those_of_any_distribution(
    sample_shape: tuple[int, ...], batch_shape: tuple[int, ...], event_shape: tuple[int, ...]
) -> None:
    p_c = mixture(batch_shape, event_shape)
    draws = p_c.sample(torch.Size(sample_shape))
    assert (p_c.batch_shape, p_c.event_shape) == (batch_shape, event_shape)
    assert draws.shape == sample_shape + batch_shape + event_shape
    assert p_c.log_prob(draws).shape == p_c.cdf(draws).shape == sample_shape + batch_shape
    point = torch.zeros(event_shape, dtype=torch.float64)
    assert p_c.log_prob(point).shape == p_c.cdf(point).shape == batch_shape
    spread = point.expand(*batch_shape, *event_shape)
    torch.testing.assert_close(p_c.log_prob(spread), p_c.log_prob(point))
