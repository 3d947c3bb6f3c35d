"""Adam, AdamW and the clipping of gradients are those of torch, to the last bit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from pyro_gcm.training import Adam, AdamW
from pyro_gcm.training.finite_steps import clip_gradients

PAIRS = {"Adam": (Adam, torch.optim.Adam), "AdamW": (AdamW, torch.optim.AdamW)}


def make(optimizer: Any, **options: Any) -> tuple[list[torch.nn.Parameter], Any]:
    """Parameters of two dtypes in two groups."""
    generator = torch.Generator().manual_seed(0)
    kinds = [((5, 3), torch.float32), ((7,), torch.float64), ((), torch.float32)]
    parameters = [
        torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for shape, dtype in kinds
    ]
    made = optimizer(parameters[:2], lr=0.02, weight_decay=0.1, **options)
    made.add_param_group({"params": parameters[2:], "lr": 0.5})
    return parameters, made


def set_gradients(parameters: list[torch.nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
    if step == 4:
        parameters[0].grad = None  # which is skipped in this step


@pytest.mark.parametrize("name", PAIRS)
def test_updates_and_state_are_those_of_torch(name: str) -> None:
    (mine, ours), (theirs, reference) = (
        make(PAIRS[name][0]),
        make(PAIRS[name][1], fused=True),
    )
    for step in range(12):
        for parameters, optimizer in ((mine, ours), (theirs, reference)):
            set_gradients(parameters, step)
            optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)  # as a scheduler does
            optimizer.step()
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)), step
        if step == 7:  # goes on from a state of torch, as after a checkpoint
            ours.load_state_dict(copy.deepcopy(reference.state_dict()))
    a, b = ours.state_dict(), reference.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for key, state in b["state"].items():
        assert all(torch.equal(a["state"][key][part], value) for part, value in state.items())


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
