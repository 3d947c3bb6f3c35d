"""Guides: the inputs of their networks, and indicators of missing values."""

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
    with_missing_indicators,
)

NAN = float("nan")


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


def test_missing_values_reach_the_network_as_zeros_and_indicators() -> None:
    spy = Spy()
    x = torch.tensor([[1.0, NAN], [0.0, 2.0]])
    AmortizedGuide(spy, missing_indicators=True)(x)
    assert spy.context.tolist() == [[1.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 0.0]]
    r, y = torch.tensor([[NAN], [3.0]]), torch.tensor([7.0, 8.0])
    PosteriorGuide(spy, missing_indicators=True)(x, r, y)
    assert spy.context.tolist() == [
        [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 7.0],
        [0.0, 2.0, 3.0, 0.0, 0.0, 0.0, 8.0],
    ]
    guide = AmortizedGuide(ConditionalFlow(4, 2), missing_indicators=True)
    q = guide(x)
    q.log_prob(q.rsample()).sum().backward()
    assert all(p.grad.isfinite().all() for p in guide.parameters())


def test_network_of_a_guide_can_be_any_conditional_distribution() -> None:
    x, r, y = torch.randn(5, 2), torch.randn(5, 4), torch.randn(5)
    for network in (Conditional(dist.Normal, 7, (3,)), ConditionalFlow(7, 3)):
        q = PosteriorGuide(network)(x, r, y)
        assert (q.batch_shape, q.event_shape) == ((5,), (3,))
        assert set(PosteriorGuide(network).state_dict()) == {
            f"q_z.{name}" for name in network.state_dict()
        }


NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_values_are_followed_by_one_indicator_per_column(dtype: torch.dtype) -> None:
    infinite = float("inf")  # which is not missing
    columns = torch.tensor([[NAN, 2.0, 0.0], [infinite, NAN, NAN]], dtype=dtype)
    wanted = torch.tensor([[0.0, 2.0, 0.0, 1.0, 0.0, 0.0], [infinite, 0.0, 0.0, 0.0, 1.0, 1.0]])
    for index in (0, slice(None), torch.tensor([[0, 1], [1, 0]])):
        given = columns[index]
        marked = with_missing_indicators(given)
        assert marked.dtype == dtype
        assert torch.equal(marked.float(), wanted[index])
        assert torch.equal(given.isnan(), columns[index].isnan())
