"""The emulated device refuses what CUDA refuses, and leaves the CPU as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

REFUSED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sum": lambda here, there: here + there,
    "in place": lambda here, there: here.add_(there),
    "in place on the device": lambda here, there: there.add_(here),
    "list": lambda here, there: torch.cat([here, there]),
    "linear layer": lambda here, there: torch.nn.Linear(3, 1)(there),
    "index on the device": lambda here, there: here[there.long()],
    "values to be put": lambda here, there: there.index_put_((here.long(),), here),
    "scalar on the device": lambda here, there: here + there[0],
    "numpy": lambda here, there: there.numpy(),
    "generator": lambda here, there: torch.rand(
        2, device=there.device, generator=torch.Generator()
    ),
}
ALLOWED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scalar on the CPU": lambda here, there: there + here[0],
    "index on the CPU": lambda here, there: there[here.long()],
    "copy": lambda here, there: there.clone().copy_(here),
    "new tensor": lambda here, there: there.new_ones(3),
    "made there": lambda here, there: torch.arange(3, device=there.device),
    "in place": lambda here, there: there.clone().mul_(2.0),
    "view changed in place": lambda here, there: there[None].squeeze_(0),
    "out": lambda here, there: torch.add(there, there, out=torch.empty_like(there)),
    "quantile": lambda here, there: there.quantile(0.5, 0)[None],
}


@pytest.fixture
def pair(device: torch.device) -> tuple[Tensor, Tensor]:
    """0, 1, 2 on the CPU and on the device."""
    return torch.arange(3.0), torch.arange(3.0).to(device)


@pytest.mark.parametrize("operation", REFUSED.values(), ids=REFUSED.keys())
def test_what_mixes_devices_is_refused(operation: Any, pair: tuple[Tensor, Tensor]) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        operation(*pair)


@pytest.mark.parametrize("operation", ALLOWED.values(), ids=ALLOWED.keys())
def test_the_result_is_on_the_device_with_the_values_of_the_cpu(
    operation: Any, pair: tuple[Tensor, Tensor]
) -> None:
    result, (here, there) = operation(*pair), pair
    assert result.device == there.device
    wanted = operation(here, here)
    assert result.shape == wanted.shape
    assert torch.equal(result.cpu(), wanted)


def test_modules_keep_their_parameters_and_their_gradients_stay(device: torch.device) -> None:
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(2, device=device)
    assert torch.equal(torch.get_rng_state(), state)  # the CPU is as before
    layer = torch.nn.Linear(3, 1)
    before = list(layer.parameters())
    layer.to(device)
    assert all(one is two for one, two in zip(before, layer.parameters(), strict=True))
    layer(torch.ones(2, 3, device=device)).sum().backward()
    assert {p.grad.device for p in layer.parameters() if p.grad is not None} == {device}
