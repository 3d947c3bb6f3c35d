"""A folder with a small table, and one saved model of each kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import fit
from loans import table

DATA = table().to_csv(index=False)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a kind to the folder of a model, which is fitted once."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "data.csv").write_text(DATA)

    def model(kind: str) -> Path:
        place = folder / kind
        if not place.exists():
            done = fit(kind, "--out", place, data=folder / "data.csv")
            assert done.code == 0, done.err
        return place

    return model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the table."""
    (tmp_path / "data.csv").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path
