"""Files are written as a whole, or an error names them and nothing changes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyro_gcm.files.writing import write_file


@contextlib.contextmanager
def _file_in_the_place_of_the_folder(folder: Path) -> Iterator[Path]:
    (folder / "place").write_bytes(b"a file")
    yield folder / "place" / "new"


@contextlib.contextmanager
def _folder_in_the_place_of_the_file(folder: Path) -> Iterator[Path]:
    (folder / "new" / "inside").mkdir(parents=True)
    yield folder / "new"


@contextlib.contextmanager
def _folder_of_the_system(folder: Path) -> Iterator[Path]:
    yield Path("/proc/nowhere/new")  # nobody can make a file there, not even root


@contextlib.contextmanager
def _removed_working_folder(folder: Path) -> Iterator[Path]:
    gone, before = folder / "gone", Path.cwd()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        yield Path("new")
    finally:
        os.chdir(before)


PLACES = [
    _file_in_the_place_of_the_folder,
    _folder_in_the_place_of_the_file,
    pytest.param(
        _folder_of_the_system,
        marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc"),
    ),
    pytest.param(
        _removed_working_folder,
        marks=pytest.mark.skipif(os.name != "posix", reason="a folder in use can be removed"),
    ),
]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_written_is_named(place, tmp_path: Path) -> None:
    with place(tmp_path) as path:
        with pytest.raises(OSError, match="could not be written") as caught:
            write_file(path, b"content")
        assert str(path) in str(caught.value)
        assert not list(tmp_path.rglob("*.partial"))


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    code = (
        "import resource, sys; from pyro_gcm.files.writing import write_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_file(sys.argv[1], bytes(2000))\n"
        "except OSError as error: print(error)"
    )
    pytest.importorskip("resource")
    run = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert f"{path} could not be written: File too large" in run.stdout
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old"]


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
