"""A working folder of its own for each test, in which the command line runs in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from pyro_gcm.cli import main


class Done(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table on stdout, with the letters that it has."""
        text = pd.read_csv(io.StringIO(self.out), dtype=str, keep_default_na=False)
        return text.to_dict("records")

    @property
    def types(self) -> dict[str, str]:
        return {column["name"]: column["type"] for column in json.loads(self.out)["columns"]}


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """A function that runs a command, which has to end with this code."""

    def command(*arguments: object, code: int = 0) -> Done:
        capsys.readouterr()
        found = main([str(argument) for argument in arguments])
        done = Done(*capsys.readouterr())
        assert found == code, done.err
        return done

    return command


@pytest.fixture
def fit(run: Callable[..., Done]) -> Callable[..., Done]:
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
        return run("fit", file, *usual, *options, code=code)

    return command
