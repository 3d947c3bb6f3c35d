"""Gradients are clipped as torch clips them."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm.training.clipping import clip_gradients


@pytest.mark.parametrize("size", [1.0, 1e-5])
@pytest.mark.parametrize("factor", [0.3, 0.98, 0.995, 1.0, 1.01, 50.0, float("inf"), float("nan")])
def test_clipped_gradients_are_those_of_torch(factor: float, size: float) -> None:
    torch.manual_seed(0)
    mine, theirs = ([torch.nn.Parameter(torch.zeros(s)) for s in ((4, 3), (5,), ())] for _ in "ab")
    gradients = [size * torch.randn(p.shape) for p in mine]
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    for a, b, gradient in zip(mine, theirs, gradients, strict=True):
        a.grad, b.grad = gradient * factor, gradient * factor
    mine.append(torch.nn.Parameter(torch.zeros(2)))  # without a gradient
    clip_gradients(mine, norm)
    torch.nn.utils.clip_grad_norm_(theirs, norm)
    for a, b in zip(mine, theirs, strict=False):
        torch.testing.assert_close(a.grad, b.grad, rtol=0.0, atol=0.0, equal_nan=True)
