"""Distributions of z: the standard normal, and a guide that reads x alone."""

from __future__ import annotations

import pyro
import torch

from pyro_gcm.nets import AmortizedGuide, StandardNormal


def test_standard_normal_ignores_its_context() -> None:
    prior = StandardNormal(3)
    for context in (None, torch.randn(7, 2)):
        z = prior(context)
        assert (z.batch_shape, z.event_shape) == ((), (3,))
        assert torch.equal(z.base_dist.loc, torch.zeros(3))
        assert torch.equal(z.base_dist.scale, torch.ones(3))


def test_standard_normal_follows_its_module_without_being_trained() -> None:
    prior = StandardNormal(3).to(torch.float64)
    assert prior().sample().dtype == torch.float64
    assert set(prior.state_dict()) == {"loc", "scale"}
    assert list(prior.parameters()) == []
    with pyro.validation_enabled(False):  # a check would need values
        assert StandardNormal(3).to("meta")().base_dist.loc.device.type == "meta"


def test_amortized_guide_reads_x_and_neither_r_nor_y() -> None:
    guide = AmortizedGuide(2, 3)
    x = torch.randn(5, 2)
    q = guide(x)
    assert (q.batch_shape, q.event_shape) == ((5,), (3,))
    same = guide(x, torch.randn(5, 4), torch.ones(5))
    assert torch.equal(q.base_dist.loc, same.base_dist.loc)
    assert torch.equal(q.base_dist.scale, same.base_dist.scale)
    assert (guide(x + 1.0).base_dist.loc != q.base_dist.loc).all()
