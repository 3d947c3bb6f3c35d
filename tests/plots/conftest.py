"""Tests of figures: no display, no open figures and unchanged settings."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plt, "show", lambda *args, **options: pytest.fail("a figure was shown"))
    settings = dict(plt.rcParams)
    plt.close("all")  # what tests elsewhere have left open
    yield
    plt.close("all")
    assert dict(plt.rcParams) == settings
