"""A working folder of its own for each test, in which the command line runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_line
import pandas as pd
import pytest
from command_line import Done


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ended(*arguments: object, code: int = 0) -> Done:
    """What a command printed, which has to end with this code."""
    done = command_line.run(*arguments)
    assert done.code == code, done.err
    return done


@pytest.fixture
def run() -> Callable[..., Done]:
    """A function that runs a command, which has to end with this code."""
    return ended


@pytest.fixture
def fit() -> Callable[..., Done]:
    """A function that fits a quick model to a table, a text or a file, and saves it in `model`."""

    def command(data: Any, *options: str, code: int = 0) -> Done:
        if isinstance(data, pd.DataFrame):
            data.to_csv("data.csv", index=False)
        elif isinstance(data, str):
            Path("data.csv").write_text(data, encoding="utf-8")
        file = data if isinstance(data, Path) else "data.csv"
        usual = ["--epochs=1", "--members=2", "--out=model", "--overwrite"]
        if "--increasing" not in str(options):
            usual.append("--increasing=debt")
        return ended("fit", file, *usual, *options, code=code)

    return command
