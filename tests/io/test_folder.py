"""Nothing is lost in writing a folder, whatever is there, also after an error or a kill."""

from __future__ import annotations

import os
import pickle
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from disks import content

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm._utils.archive import manifest_of
from pyro_gcm._utils.writing import held, write_file
from pyro_gcm.io import DamagedFolder
from pyro_gcm.io.folder import read_folder, write_folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def test_a_folder_has_no_pickle_and_the_same_bytes_for_the_same_model(tmp_path: Path) -> None:
    first, second = (pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / name) for name in "ab")
    assert content(first) == content(second)
    assert set(content(first)) == {"card.json", "manifest.json", "weights.safetensors"}
    for raw in content(first).values():
        with pytest.raises(Exception):  # noqa: B017, PT011
            pickle.loads(raw)


def test_a_folder_is_replaced_only_when_asked_for(saved: Path) -> None:
    before, other = content(saved), GCM(2, 1, seed=2)
    with pytest.raises(FileExistsError, match="pass overwrite=True to replace it"):
        pyro_gcm.save(other, saved)
    assert content(saved) == before
    pyro_gcm.save(other, saved, overwrite=True)
    assert pyro_gcm.load(saved).seed == 2
    assert os.listdir(saved.parent) == ["saved"]
    (saved.parent / "empty").mkdir()
    for name in ("empty", "new/inner"):  # is taken as it is, and parents are made
        assert pyro_gcm.load(pyro_gcm.save(GCM(2, 1, seed=3), saved.parent / name)).seed == 3


def test_no_other_file_is_lost(saved: Path, tmp_path: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"beside which nothing is saved: notes\.txt"):
        pyro_gcm.save(GCM(2, 1), saved, overwrite=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "data.csv").write_text("1")
    with pytest.raises(FileExistsError, match=r"beside which nothing is saved: data\.csv"):
        pyro_gcm.save(GCM(2, 1), tmp_path / "own", overwrite=True)
    with pytest.raises(FileExistsError, match="is a file"):
        pyro_gcm.save(GCM(2, 1), tmp_path / "own" / "data.csv", overwrite=True)
    assert (tmp_path / "own" / "data.csv").read_text() == "1"


def test_a_link_to_a_folder_is_followed_to_it(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(saved)
    pyro_gcm.save(GCM(2, 1, seed=4), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert pyro_gcm.load(tmp_path / "link").seed == pyro_gcm.load(saved).seed == 4


def test_no_folder_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        pyro_gcm.load(tmp_path / "nothing")
    with pytest.raises(DamagedFolder, match=r"manifest\.json is missing"):
        pyro_gcm.load(tmp_path)
    with pytest.raises(ValueError, match="device='cupboard' is not a device"):
        pyro_gcm.load(tmp_path, device="cupboard")


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
    old = content(saved)
    new = {**files, "manifest.json": manifest_of(files)}
    found = []
    for step in range(20):
        with pytest.MonkeyPatch.context() as patch, suppress(error):
            stopped(patch, step, stop, *CALLS)
            write_folder(saved, files, overwrite=True)
        found.append(content(saved))
        assert found[-1] in (old, new)
        assert os.listdir(tmp_path) == ["saved"]
        write_folder(saved, before, overwrite=True)
    assert found.count(old) > 9
    assert found[-1] == new


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
@pytest.mark.parametrize("step", [0, 4, 6, *range(8, 24)])
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_save_that_is_killed_can_be_read_and_leaves_nothing(step: int, saved: Path) -> None:
    files = read_folder(saved)
    new = {**{name: raw + b"new" for name, raw in files.items()}, "third": b"new"}
    process = os.fork()
    if not process:
        stopped(pytest.MonkeyPatch(), step, lambda: os._exit(9), *CALLS, "unlink")
        write_folder(saved, new, overwrite=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*a save was killed while it exchanged the files")
        assert read_folder(saved) in (files, new)
    write_folder(saved, files, overwrite=True)
    assert read_folder(saved) == files
    assert sorted(os.listdir(saved)) == sorted([*files, "manifest.json"])
    assert os.listdir(saved.parent) == ["saved"]


def test_files_of_others_and_of_writers_at_work_are_not_cleared_away(tmp_path: Path) -> None:
    mark = f"pyro_gcm-{'0123abcd' * 2}"
    names = [f".a.{mark}.partial", f".b.{mark}.old", f".b.{mark}.partial", ".a.20260101.partial"]
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
    write_folder(saved, versions[0], overwrite=True)
    read, steps = Path.read_bytes, iter(range(1, 5))

    def replacing(path: Path) -> bytes:
        raw = read(path)
        if path.name == "manifest.json" and (step := next(steps, None)) is not None:
            # What was read is the manifest of before.
            write_folder(saved, versions[step % 2], overwrite=True)
        return raw

    monkeypatch.setattr(Path, "read_bytes", replacing)
    assert read_folder(saved) in versions
    assert next(steps, None) is None
