"""Guides: the inputs of their networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyro_gcm.nets import (
    AmortizedGuide,
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


def test_posterior_guide_reads_x_r_and_y_in_order_and_the_dtype_of_x() -> None:
    spy, x, r = Spy(), torch.randn(5, 2), torch.randn(5, 4)
    for dtype in (torch.float32, torch.int64, torch.float64, torch.bool):
        y = torch.arange(5).to(dtype)
        assert PosteriorGuide(spy)(x, r, y) == "q"
        assert spy.context.dtype == torch.float32
        assert torch.equal(spy.context, torch.cat([x, r, y.float().reshape(5, 1)], dim=1))
    given = {"x": x, "r": r, "y": torch.randn(5)}
    for missing, named in ((["r"], "r"), (["y"], "y"), (["r", "y"], "r and y")):
        message = rf"q\(z\|x, r, y\) needs r and y, got None for {named}$"
        with pytest.raises(ValueError, match=message):
            PosteriorGuide(spy)(**{k: v for k, v in given.items() if k not in missing})
