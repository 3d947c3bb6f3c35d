"""Networks from a context to a distribution of z that Pyro programs can use."""

from __future__ import annotations

import pyro
import torch

from pyro_gcm.nets import (
    ConditionalMultivariateNormal,
    StandardNormal,
)


def test_standard_normal_ignores_its_context_and_moves_with_its_module() -> None:
    prior = StandardNormal(3)
    assert set(prior.state_dict()) == {"loc", "scale"}
    assert list(prior.parameters()) == []
    for context in (None, torch.randn(7, 2)):
        z = prior(context)
        assert (z.batch_shape, z.event_shape) == ((), (3,))
        assert torch.equal(z.base_dist.loc, torch.zeros(3))
        assert torch.equal(z.base_dist.scale, torch.ones(3))
    assert prior.to(torch.float64)().sample().dtype == torch.float64
    with pyro.validation_enabled(False):  # meta tensors have no values to check
        assert prior.to("meta")().base_dist.loc.device.type == "meta"


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
