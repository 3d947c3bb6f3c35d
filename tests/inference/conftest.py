"""A toy to train on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from training_cases import Rows

from pyro_gcm._utils.process_state import Randomness
from pyro_gcm.training import trainer

# A second conftest.py cannot be collected for doctests: the module name is taken.
collect_ignore = ["conftest.py"]


@pytest.fixture(scope="session")
def toy() -> Rows:
    """200 rows, x [.., 3] and r [.., 2] far from unit scale; y depends on both."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(200, 3, generator=g)
    r = torch.rand(200, 2, generator=g)
    margin = 2.0 * x[:, 0] + 4.0 * (r.sum(1) - 1.0) + torch.randn(200, generator=g)
    return Rows(x, 50.0 + 20.0 * r, (margin > 0).float())


class _SeededSteps(Randomness):
    """The same draws in a step of either engine, which use up different amounts of them."""

    uses = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.uses += 1
        self.cpu = torch.Generator().manual_seed(1000 + self.uses).get_state()
        with super().in_use():
            yield


@pytest.fixture
def seeded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a fit has draws of its own, whatever the steps before have used."""
    monkeypatch.setattr(trainer, "Randomness", _SeededSteps)


@pytest.fixture
def float64() -> Iterator[None]:
    """float64 is the default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
