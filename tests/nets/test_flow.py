"""The flow: density and draws agree, nothing is cached, given noise determines draws."""

from __future__ import annotations

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
