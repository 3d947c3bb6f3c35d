"""Tests of figures: no display, no open figures, unchanged settings, the same draws."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
import torch


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No figure is shown or stays open, no setting changes, and draws are the same in every run."""

    def show(*args: object, **kwargs: object) -> None:
        raise AssertionError("a figure was shown")

    monkeypatch.setattr(plt, "show", show)
    settings = dict(plt.rcParams)
    with torch.random.fork_rng():
        torch.manual_seed(20250721)
        yield
    plt.close("all")
    assert dict(plt.rcParams) == settings
