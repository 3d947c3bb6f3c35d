"""Guides, flows and other networks from a context to a distribution of z."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pyro_gcm.nets import (
    AmortizedGuide,
    ConditionalFlow,
    ConditionalMultivariateNormal,
    PosteriorGuide,
)


def test_full_covariance_is_initially_nearly_diagonal_and_can_be_trained() -> None:
    net = ConditionalMultivariateNormal(3, 4)
    context = torch.randn(200, 3)
    tril = net(context).scale_tril
    row, column = torch.tril_indices(4, 4, -1)
    below = tril[:, row, column]
    assert 0.0 < below.abs().mean() < 0.1
    assert (tril.diagonal(dim1=-2, dim2=-1) >= 0.05).all()
    assert torch.equal(tril, tril.tril())
    below.sum().backward()
    assert (net.net[-1].weight.grad[8:] != 0.0).all()


class Spy(nn.Module):
    """A network that records its context."""

    def forward(self, context: Tensor) -> Any:
        self.context = context
        return "q"


def test_amortized_guide_reads_x_and_neither_r_nor_y() -> None:
    spy = Spy()
    guide = AmortizedGuide(spy)
    x = torch.randn(5, 2)
    assert guide(x) == "q"
    assert spy.context is x
    guide(x, torch.randn(5, 4), torch.ones(5))
    assert spy.context is x


def test_posterior_guide_reads_x_r_and_y_in_order_and_the_dtype_of_x() -> None:
    spy, x, r = Spy(), torch.randn(5, 2), torch.randn(5, 4)
    for dtype in (torch.float32, torch.int64, torch.float64, torch.bool):
        y = torch.arange(5).to(dtype)
        assert PosteriorGuide(spy)(x, r, y) == "q"
        assert spy.context.dtype == torch.float32
        assert torch.equal(spy.context, torch.cat([x, r, y.float().reshape(5, 1)], dim=1))


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
