"""A toy to train on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import zoo

# A second conftest.py cannot be collected for doctests: the module name is taken.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def toy() -> zoo.Rows:
    """200 rows, x [.., 3] and r [.., 2] far from unit scale; y depends on both."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(200, 3, generator=g)
    r = torch.rand(200, 2, generator=g)
    margin = 2.0 * x[:, 0] + 4.0 * (r.sum(1) - 1.0) + torch.randn(200, generator=g)
    return zoo.Rows(x, 50.0 + 20.0 * r, (margin > 0).float())


@pytest.fixture
def float64() -> Iterator[None]:
    """float64 is the default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
