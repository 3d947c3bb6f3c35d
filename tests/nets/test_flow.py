"""The flow: density and draws agree, nothing is cached, given noise determines draws."""

from __future__ import annotations

import math

import pytest
import torch

from pyro_gcm.nets import ConditionalFlow

F64 = torch.float64


def flow(dim: int, transforms: int = 2) -> ConditionalFlow:
    """A flow whose splines differ much from the identity."""
    net = ConditionalFlow(3, dim, transforms=transforms).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.0)
    return net


def test_density_of_one_column_integrates_to_one_and_depends_on_the_context() -> None:
    context = torch.randn(5, 3, dtype=F64)
    d = flow(1)(context)
    grid = torch.linspace(-12.0, 12.0, 40_001, dtype=F64).reshape(-1, 1, 1).expand(-1, 5, 1)
    density = d.log_prob(grid).exp()
    torch.testing.assert_close(
        torch.trapezoid(density, grid[..., 0], dim=0), torch.ones(5, dtype=F64), rtol=0, atol=1e-5
    )
    mean = torch.trapezoid(density * grid[..., 0], grid[..., 0], dim=0)
    assert mean.std() > 0.05
    far = torch.full((5, 1), 30.0, dtype=F64)  # outside the splines it is a standard normal
    standard = -450.0 - 0.5 * math.log(2.0 * math.pi)
    torch.testing.assert_close(d.log_prob(far), torch.full((5,), standard, dtype=F64))
    drawn = d.sample((50_000,))[..., 0]
    assert ((drawn.mean(0) - mean).abs() < 5.0 * drawn.std(0) / 50_000**0.5).all()


@pytest.mark.parametrize("dim", [1, 3], ids="D={}".format)
def test_given_noise_is_mapped_by_the_inverse_of_the_flow(dim: int) -> None:
    net = flow(dim)
    context = torch.randn(5, 3, dtype=F64)
    noise = torch.randn(7, 1, dim, dtype=F64)
    d = net(context)
    z = d.rsample_from(noise)
    assert z.shape == (7, 5, dim)
    torch.testing.assert_close(d.dist.transform(z), noise.expand(7, 5, dim))
    torch.testing.assert_close(net(context[2]).rsample_from(noise[:, 0]), z[:, 2])
    assert torch.equal(d.expand((7, 5)).rsample_from(noise), z)
    assert d.expand((2, 5)).rsample_from(noise.unsqueeze(1)).shape == (7, 2, 5, dim)
    assert torch.equal(d.rsample_from(noise), z)


def test_density_is_not_cached() -> None:
    d = flow(2)(torch.randn(5, 3, dtype=F64))
    z = d()
    first = d.log_prob(z)
    torch.testing.assert_close(d.log_prob(z.detach()), first)
    with torch.no_grad():
        for value in (z.detach().clone(), d()):
            first = d.log_prob(value)
            value.add_(1.0)  # the same tensor with another value
            torch.testing.assert_close(d.log_prob(value), d.log_prob(value.clone()))
            assert (d.log_prob(value) - first).abs().min() > 1e-3
    assert d.cache == {}
