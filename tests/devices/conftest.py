"""The device of these tests: that of CUDA where there is one, or the emulated one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from device_emulation import AVAILABLE, emulated, register

# A second conftest.py cannot be collected for doctests: the module name is taken.
collect_ignore = ["conftest.py"]

# While tests are collected, and so before any of them, whichever comes first.
if AVAILABLE and not torch.cuda.is_available():
    register()


@pytest.fixture
def device() -> Iterator[torch.device]:
    """A device that is not the CPU."""
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
