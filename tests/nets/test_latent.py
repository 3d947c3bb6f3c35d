"""Networks from a context to a distribution of z that Pyro programs can use."""

from __future__ import annotations

import torch

from pyro_gcm.nets import (
    ConditionalMultivariateNormal,
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
