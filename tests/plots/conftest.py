"""Figures without a screen that are closed after each test, and settings that none may change."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
import torch

# A second conftest.py cannot be collected for doctests: the module name is taken.
collect_ignore = ["conftest.py"]


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No figure is shown or left open, no setting is changed, draws are the same at every run."""

    def show(*args: object, **kwargs: object) -> None:
        raise AssertionError("a figure was shown")

    monkeypatch.setattr(plt, "show", show)
    settings = dict(plt.rcParams)
    with torch.random.fork_rng():
        torch.manual_seed(20250721)
        yield
    plt.close("all")
    assert dict(plt.rcParams) == settings
