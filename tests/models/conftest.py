"""Generators and a parameter store that no test can leave changed."""

from __future__ import annotations

from collections.abc import Iterator

import pyro
import pytest
import torch

# A second conftest.py cannot be collected for doctests: the module name is taken.
collect_ignore = ["conftest.py"]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """The same numbers at every run, and an empty store."""
    with torch.random.fork_rng(), pyro.get_param_store().scope():
        torch.manual_seed(20250721)
        yield
