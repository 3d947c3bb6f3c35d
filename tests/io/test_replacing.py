"""A folder that is replaced is whole for whoever reads it, also after an error or a kill."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.io import folder as folders
from pyro_gcm.io.archive import manifest_of
from pyro_gcm.io.folder import read_folder
from pyro_gcm.io.writing import held, write_file


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


#: Calls of the system with which files are replaced.
CALLS = ("fsync", "link", "replace", "rename")


def stopped(patch: pytest.MonkeyPatch, step: int, stop: Any, *names: str) -> None:
    """Let `stop` come in the place of a call of the system, counted from 0."""
    calls = iter(range(1000))

    def stopping(call: Any) -> Any:
        def may_stop(*args: Any, **options: Any) -> Any:
            if next(calls) == step:
                stop()
            return call(*args, **options)

        return may_stop

    for name in names:
        patch.setattr(os, name, stopping(getattr(os, name)))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_the_old_folder_whole_or_the_new_one(
    error: type[BaseException], saved: Path, tmp_path: Path
) -> None:
    def stop() -> None:
        raise error

    before = read_folder(saved)
    files = {**{name: raw + b"new" for name, raw in before.items()}, "third": b"new"}
    old = contents(saved)
    new = {**files, "manifest.json": manifest_of(files)}
    found = []
    for step in range(14):
        with pytest.MonkeyPatch.context() as patch:
            stopped(patch, step, stop, *CALLS)
            try:
                folders.write_folder(saved, files, overwrite=True)
            except error:
                assert contents(saved) in (old, new)
        found.append(contents(saved) == old)
        assert os.listdir(tmp_path) == ["saved"]
        folders.write_folder(saved, before, overwrite=True)
    assert found.count(True) > 8
    assert not found[-1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
@pytest.mark.parametrize("step", [0, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16])
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_save_that_is_killed_can_be_read_and_leaves_nothing_to_the_next(
    step: int, saved: Path
) -> None:
    files = read_folder(saved)
    new = {**{name: raw + b"new" for name, raw in files.items()}, "third": b"new"}
    process = os.fork()
    if not process:
        stopped(pytest.MonkeyPatch(), step, lambda: os._exit(9), *CALLS, "unlink")
        folders.write_folder(saved, new, overwrite=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*a save was killed while it replaced the files")
        assert read_folder(saved) in (files, new)
    folders.write_folder(saved, files, overwrite=True)
    assert read_folder(saved) == files
    assert sorted(os.listdir(saved)) == sorted([*files, "manifest.json"])
    assert os.listdir(saved.parent) == ["saved"]


def test_files_of_others_and_of_writers_at_work_are_not_cleared_away(tmp_path: Path) -> None:
    mark = f"pyro_gcm-{'0123abcd' * 2}"
    names = [f".a.{mark}.partial", f".a.{mark}.old", f".b.{mark}.partial", ".a.20260101.partial"]
    for name in names:
        (tmp_path / name).touch()
    with held(tmp_path / names[0]):
        write_file(tmp_path / "a", b"")
        assert sorted(os.listdir(tmp_path)) == sorted([*names, "a"])
    write_file(tmp_path / "a", b"")
    assert sorted(os.listdir(tmp_path)) == sorted([*names[1:], "a"])


def test_a_folder_that_is_replaced_meanwhile_is_read_as_one_or_the_other(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [{"a": b"first" * 9, "b": b"1"}, {"a": b"second" * 9, "c": b"2"}]
    folders.write_folder(saved, versions[0], overwrite=True)
    opened, steps = os.open, iter(range(1, 5))

    def replacing(path: Any, flags: int, *args: Any, **options: Any) -> int:
        handle = opened(path, flags, *args, **options)
        is_read = os.path.basename(path) == "manifest.json" and not flags & os.O_CREAT
        step = next(steps, None) if is_read else None
        if step is not None:  # what is read is the manifest of before
            folders.write_folder(saved, versions[step % 2], overwrite=True)
        return handle

    monkeypatch.setattr(os, "open", replacing)
    assert read_folder(saved) in versions
