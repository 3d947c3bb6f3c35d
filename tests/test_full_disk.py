"""Whatever writes files names the one that it cannot write, with the cause, and changes nothing."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from disks import blocked, content, full_disk

from pyro_gcm import GCM, save
from pyro_gcm._utils.files import write_figure
from pyro_gcm.cli import main
from pyro_gcm.io.export import export
from reproduce.__main__ import main as reproduce
from reproduce.report import main as write_report
from reproduce.runs import write_csv


def model() -> GCM:
    """For the command line of the audit as well."""
    made = GCM(1, 1, seed=0)
    made.objective = "conditional"
    return made


def _audit(option: str) -> Callable[[Path], object]:
    arguments = f"audit {__name__}:model rows.csv --r r --pairs 9 --quiet {option}".split()
    return lambda path: sys.exit(main([*arguments, str(path)]))


def _report(path: Path) -> None:
    write_report(argparse.Namespace(results=Path(), device="cpu", output=path.parent))


#: The name of the file that is written, and what writes it.
WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "save": ("model", lambda path: save(model(), path, overwrite=True)),
    "export": ("gcm.pt2", lambda path: export(model(), path)),
    "write_figure": ("figure.png", lambda path: write_figure(path, plt.figure())),
    "results": ("a.csv", lambda path: write_csv(pd.DataFrame({"a": range(99)}), path)),
    "report": ("REPORT.md", _report),
    "audit --json": ("audit.json", _audit("--json")),
    "audit --plot": ("audit.png", _audit("--plot")),
}


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the rows of the audit."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    pd.DataFrame({"x": [0.1, 0.2] * 9, "r": [1.0, 2.0, 3.0] * 6}).to_csv("rows.csv", index=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


SLOW = ("export", "audit --plot")


def told(write: Callable[[Path], object], path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a writer; that of a command is one line."""
    with pytest.raises((OSError, SystemExit)) as caught:
        write(path)
    if isinstance(caught.value, OSError):
        return str(caught.value)
    assert caught.value.code == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


@pytest.mark.parametrize(
    "writer", [pytest.param(w, marks=pytest.mark.long(keep=0)) if w in SLOW else w for w in WRITERS]
)
def test_a_full_disk_is_told_and_leaves_what_was_there(
    writer: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, write = WRITERS[writer]
    if writer == "save":
        write(folder / name)
    else:
        (folder / name).write_bytes(b"old")
    before = content(folder)
    with full_disk():
        error = told(write, folder / name, capsys)
    assert re.search(f"{folder / name}.* could not be written: File too large", error)
    assert content(folder) == before


@pytest.mark.parametrize("writer", ["save", "results", "audit --json"])
def test_a_place_where_nothing_can_be_is_told(
    writer: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, write = WRITERS[writer]
    path = blocked(folder) / name
    assert str(path.parent) in told(write, path, capsys)
    assert content(folder) == {"no folder": b"a file"}


@pytest.mark.parametrize("command", ["quantile", "timing", "datasets", "report"])
def test_an_experiment_says_in_one_line_that_it_cannot_write(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = blocked(folder)
    monkeypatch.setattr(sys, "argv", ["reproduce", command, "--quick", "--output", str(place)])
    if command in ("datasets", "report"):
        sys.argv.remove("--quick")
    if command == "report":
        sys.argv += ["--results", "."]
    with pytest.raises(SystemExit) as ended:
        reproduce()
    told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert told[-1].startswith(f"python -m reproduce {command}: error: ")
    assert f"{place}" in told[-1]
    assert "Traceback" not in "".join(told)
