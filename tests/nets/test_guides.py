"""Guides: the inputs of their networks."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor, nn

from pyro_gcm.nets import (
    AmortizedGuide,
    Conditional,
    ConditionalFlow,
    PosteriorGuide,
)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float64, torch.bool], ids=str)
def test_posterior_guide_reads_x_r_and_y_in_order_and_the_dtype_of_x(dtype: torch.dtype) -> None:
    spy = Spy()
    x, r, y = torch.randn(5, 2), torch.randn(5, 4), torch.arange(5).to(dtype)
    assert PosteriorGuide(spy)(x, r, y) == "q"
    assert spy.context.dtype == torch.float32
    assert torch.equal(spy.context, torch.cat([x, r, y.float().reshape(5, 1)], dim=1))


@pytest.mark.parametrize(
    ("missing", "named"),
    [(("r",), "r"), (("y",), "y"), (("r", "y"), "r and y")],
    ids=["r", "y", "both"],
)
def test_posterior_guide_requires_r_and_y(missing: tuple[str, ...], named: str) -> None:
    given = {"x": torch.randn(5, 2), "r": torch.randn(5, 4), "y": torch.randn(5)}
    for name in missing:
        del given[name]
    with pytest.raises(ValueError, match=rf"q\(z\|x, r, y\) needs r and y, got None for {named}$"):
        PosteriorGuide(Spy())(**given)


def test_network_of_a_guide_can_be_any_conditional_distribution() -> None:
    x, r, y = torch.randn(5, 2), torch.randn(5, 4), torch.randn(5)
    for network in (Conditional(dist.Normal, 7, (3,)), ConditionalFlow(7, 3)):
        q = PosteriorGuide(network)(x, r, y)
        assert (q.batch_shape, q.event_shape) == ((5,), (3,))
        assert set(PosteriorGuide(network).state_dict()) == {
            f"q_z.{name}" for name in network.state_dict()
        }
