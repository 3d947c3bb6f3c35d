"""Files are written as a whole, or an error names them and nothing changes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from disks import blocked

from pyro_gcm.files.writing import write_file


def place(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where no file can be written, whoever runs the tests."""
    if kind == "under a file":
        return blocked(folder)
    if kind == "a folder":
        (folder / "new" / "inside").mkdir(parents=True)
        return folder / "new"
    if kind == "a folder of the system":
        return Path("/proc/nowhere/new")
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    return Path("new")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc, and removes folders in use")
@pytest.mark.parametrize(
    "kind", ["under a file", "a folder", "a folder of the system", "a removed working folder"]
)
def test_a_place_that_cannot_be_written_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(kind, tmp_path, monkeypatch)
    with pytest.raises(OSError, match="could not be written") as caught:
        write_file(path, b"content")
    assert str(path) in str(caught.value)
    assert not list(tmp_path.rglob("*.partial"))


def test_an_interruption_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old"
    write_file(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old"]


def _interrupted(file: int) -> None:
    raise KeyboardInterrupt


def test_a_file_is_made_with_its_folder_replaced_and_reached_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a" / "b" / "file", tmp_path / "link"
    write_file(path, b"first")
    link.symlink_to(path)
    write_file(link, b"second")
    assert link.is_symlink()
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file"]
