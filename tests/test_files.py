"""Files are written as a whole, or an error names them and nothing changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from disks import blocked

from pyro_gcm import GCM, export, fit, load, save
from pyro_gcm._utils.files import write_file
from pyro_gcm.baselines import MLP
from pyro_gcm.baselines import fit as fit_baseline
from pyro_gcm.io import read_card


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


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def _checkpoint(path: Any) -> None:
    fit(GCM(1, 1), torch.rand(9, 1), torch.rand(9, 1), torch.ones(9), checkpoint=path)


def _of_baseline(path: Any) -> None:
    fit_baseline(MLP(1, 1), torch.rand(9, 1), torch.rand(9, 1), torch.ones(9), checkpoint=path)


def _export(path: Any) -> None:
    model = GCM(1, 1)
    model.objective = "conditional"
    export(model, path)


#: What takes a path.
DOORS: dict[str, Callable[[Any], object]] = {
    "fit": _checkpoint,
    "baselines.fit": _of_baseline,
    "save": lambda path: save(GCM(1, 1), path),
    "load": load,
    "read_card": read_card,
    "export": _export,
}


@pytest.mark.parametrize("path", ["", "a\0b", 256 * "n"], ids=["empty", "NUL", "long"])
@pytest.mark.parametrize("door", DOORS)
def test_a_path_that_cannot_be_is_refused(
    door: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((OSError, ValueError), match=r"empty|null|too long"):
        DOORS[door](path)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("door", ["fit", "baselines.fit"])
def test_a_checkpoint_is_no_folder(door: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^checkpoint must be a file, and .* is a folder"):
        DOORS[door](tmp_path)
