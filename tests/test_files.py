"""Files are written as a whole, or an error names the file and the cause, and nothing changes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch
from disks import blocked, content, full_disk

from pyro_gcm import GCM, baselines, export, fit, load, save
from pyro_gcm._utils.files import write_figure, write_file
from pyro_gcm.cli import main
from pyro_gcm.io import read_card
from reproduce.runs import write_csv


def model() -> GCM:
    """For the command line of the audit as well."""
    made = GCM(1, 1, seed=0)
    made.objective = "conditional"
    return made


def _audit(path: Path) -> None:
    arguments = f"audit {__name__}:model rows.csv --r r --pairs 9 --quiet --json".split()
    sys.exit(main([*arguments, str(path)]))


#: The name of the file that is written, and what writes it.
WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "save": ("model", lambda path: save(model(), path, overwrite=True)),
    "export": ("gcm.pt2", lambda path: export(model(), path)),
    "write_figure": ("figure.png", lambda path: write_figure(path, plt.figure())),
    "results": ("a.csv", lambda path: write_csv(pd.DataFrame({"a": range(99)}), path)),
    "audit --json": ("audit.json", _audit),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, beside a working one with the rows of the audit."""
    for name in ("work", "folder"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    pd.DataFrame({"x": [0.1, 0.2] * 9, "r": [1.0, 2.0, 3.0] * 6}).to_csv("rows.csv", index=False)
    return tmp_path / "folder"


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


@pytest.mark.long(keep=("save", "write_figure", "results", "audit --json"))
@pytest.mark.parametrize("writer", WRITERS)
def test_a_disk_that_is_full_and_a_place_where_nothing_can_be_are_told(
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
    if writer in ("save", "results", "audit --json"):
        path = blocked(folder) / name
        assert str(path.parent) in told(write, path, capsys)
        assert content(folder) == {**before, "no folder": b"a file"}


# One file


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc, and removes folders in use")
def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a folder/inside", "gone"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    places = [blocked(tmp_path), tmp_path / "a folder", Path("/proc/nowhere/new"), Path("new")]
    for path in places:
        with pytest.raises(OSError, match=f"{path}.*could not be written"):
            write_file(path, b"content")
    assert not list(tmp_path.rglob("*.partial"))


def test_a_file_is_made_with_its_folder_replaced_and_reached_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a" / "b" / "file", tmp_path / "link"
    write_file(path, b"first")
    link.symlink_to(path)
    write_file(link, b"second")
    assert link.is_symlink()
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file"]
    victim = tmp_path / "victim"
    victim.write_bytes(b"as it was")
    (path.parent / ".file.partial").symlink_to(victim)  # no way through a link beside it
    with pytest.raises(OSError, match="could not be written"):
        write_file(path, b"third")
    assert victim.read_bytes() == b"as it was"


ROWS = torch.rand(9, 1), torch.rand(9, 1), torch.ones(9)
#: What takes a path.
DOORS: dict[str, Callable[[Any], object]] = {
    "fit": lambda path: fit(GCM(1, 1), *ROWS, checkpoint=path),
    "baselines.fit": lambda path: baselines.fit(baselines.MLP(1, 1), *ROWS, checkpoint=path),
    "save": lambda path: save(GCM(1, 1), path),
    "load": load,
    "read_card": read_card,
    "export": lambda path: export(model(), path),
}


def test_a_path_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, door in DOORS.items():
        for path in ("", "a\0b", 256 * "n"):
            with pytest.raises((OSError, ValueError), match=r"empty|null|too long"):
                pytest.fail(f"{name} takes {path!r}: {door(path)}")
        if "fit" in name:
            with pytest.raises(ValueError, match=r"^checkpoint must be a file, and .* is a folder"):
                door(tmp_path)
    assert not os.listdir(tmp_path)
