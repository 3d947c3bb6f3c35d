"""The devices of these tests, and the forms in which a user may pass rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from device_emulation import AVAILABLE, emulated, register
from placed_models import Put

# A second conftest.py cannot be collected for doctests: the module name is taken.
collect_ignore = ["conftest.py"]

# While tests are collected, and so before any of them, whichever comes first.
if AVAILABLE and not torch.cuda.is_available():
    register()


@pytest.fixture
def device() -> Iterator[torch.device]:
    """A device that is not the CPU: that of CUDA where there is one, or the emulated one."""
    context: Any
    if torch.cuda.is_available():
        context = nullcontext(torch.device("cuda", 0))
    elif AVAILABLE:
        context = emulated()
    else:
        pytest.skip(f"torch {torch.__version__} cannot register a device from Python")
    with context as made, torch.random.fork_rng():  # inside, for the generator of the device
        torch.manual_seed(0)
        yield made


@pytest.fixture(params=["tensors on the CPU", "tensors on the device", "arrays"])
def put(request: pytest.FixtureRequest, device: torch.device) -> Put:
    """A function that turns CPU tensors into one of the forms in which a user may pass rows."""
    forms: dict[str, Put] = {
        "tensors on the CPU": lambda values: values,
        "tensors on the device": lambda values: values.to(device),
        "arrays": lambda values: values.numpy(),
    }
    return forms[request.param]


@pytest.fixture
def home(put: Put) -> torch.device:
    """The device on which results for inputs from `put` are expected; an array is on the CPU."""
    return torch.as_tensor(put(torch.zeros(1))).device
