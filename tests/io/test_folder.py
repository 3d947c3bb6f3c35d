"""A folder holds a whole model, the old one or the new one, whenever a save ends."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from disks import content, full_disk

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.io import DamagedFile, read_card


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def weights(folder: Path) -> Path:
    (path,) = folder.glob("weights-*.safetensors")
    return path


def test_a_folder_has_no_pickle_and_the_same_bytes_for_the_same_model(tmp_path: Path) -> None:
    first, second = (pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / name) for name in "ab")
    assert content(first) == content(second)
    digest = read_card(first)["weights"]
    assert set(content(first)) == {"card.json", f"weights-{digest[:16]}.safetensors"}
    for raw in content(first).values():
        with pytest.raises(Exception):  # noqa: B017, PT011
            pickle.loads(raw)


def test_a_model_is_replaced_only_when_asked_for(saved: Path) -> None:
    before, other = content(saved), GCM(2, 1, seed=2)
    with pytest.raises(
        FileExistsError, match=r"has a model: overwrite=True \(--overwrite\) replaces it"
    ):
        pyro_gcm.save(other, saved)
    assert content(saved) == before
    pyro_gcm.save(other, saved, overwrite=True)
    assert pyro_gcm.load(saved).seed == 2
    assert len(content(saved)) == 2
    (saved.parent / "empty").mkdir()
    for name in ("empty", "new/inner"):  # is taken as it is, and parents are made
        assert pyro_gcm.load(pyro_gcm.save(GCM(2, 1, seed=3), saved.parent / name)).seed == 3
    (saved.parent / "link").symlink_to(saved)
    pyro_gcm.save(GCM(2, 1, seed=4), saved.parent / "link", overwrite=True)
    assert (saved.parent / "link").is_symlink()
    assert pyro_gcm.load(saved).seed == 4


def test_other_files_stay(saved: Path, tmp_path: Path) -> None:
    others = {"notes.txt": b"mine", "weights-mine.safetensors": b"mine", "data/a.csv": b"a"}
    (saved / "data").mkdir()
    for name, raw in others.items():
        (saved / name).write_bytes(raw)
    pyro_gcm.save(GCM(2, 1, seed=2), saved, overwrite=True)
    assert pyro_gcm.load(saved).seed == 2
    assert others.items() < content(saved).items()
    assert len(content(saved)) == 5
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match=r"must be new or have a model, .* has a\.csv"):
            pyro_gcm.save(GCM(2, 1), saved / "data", overwrite=overwrite)
    with pytest.raises(FileExistsError, match="could not be written"):
        pyro_gcm.save(GCM(2, 1), saved / "notes.txt", overwrite=True)


def test_no_folder_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        pyro_gcm.load(tmp_path / "nothing")
    with pytest.raises(DamagedFile, match=r"card\.json .*No such file"):
        pyro_gcm.load(tmp_path)
    with pytest.raises(RuntimeError, match="cupboard"):
        pyro_gcm.load(tmp_path, device="cupboard")


def test_a_full_disk_leaves_the_old_model_whole(saved: Path) -> None:
    before = content(saved)
    for room in (0, 100, weights(saved).stat().st_size, (saved / "card.json").stat().st_size):
        with full_disk(room), suppress(OSError):
            pyro_gcm.save(GCM(2, 1, hidden=[64, 64], seed=2), saved, overwrite=True)
        assert content(saved) == before


#: Calls of the system with which files are replaced.
CALLS = ("open", "fsync", "chmod", "replace", "unlink")


def stopped(patch: pytest.MonkeyPatch, step: int, stop: Any) -> None:
    """Let `stop` come in the place of a call of the system, counted from 0."""
    calls = iter(range(1000))

    def stopping(call: Any) -> Any:
        def may_stop(*args: Any, **options: Any) -> Any:
            if next(calls) == step:
                stop()
            return call(*args, **options)

        return may_stop

    for name in CALLS:
        patch.setattr(os, name, stopping(getattr(os, name)))


def test_an_interruption_leaves_the_old_model_or_the_new_one(saved: Path) -> None:
    for error in (KeyboardInterrupt(), OSError()):
        seeds = []
        for step in range(12):
            with pytest.MonkeyPatch.context() as patch, suppress(type(error)):
                stopped(patch, step, mock.Mock(side_effect=error))
                pyro_gcm.save(GCM(2, 1, seed=2), saved, overwrite=True)
            seeds.append(pyro_gcm.load(saved).seed)
            pyro_gcm.save(GCM(2, 1, seed=1), saved, overwrite=True)
            assert len(content(saved)) == 2, step
        assert seeds == sorted(seeds)
        assert {*seeds} == {1, 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_save_that_is_killed_leaves_a_model_and_the_next_one_clears_up(saved: Path) -> None:
    killed = 0
    for step in range(9):
        process = os.fork()
        if not process:
            torch.set_num_threads(1)  # the threads of the parent are not in a child
            stopped(pytest.MonkeyPatch(), step, lambda: os._exit(9))
            pyro_gcm.save(GCM(2, 1, seed=2), saved, overwrite=True)
            os._exit(0)
        killed += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
        assert pyro_gcm.load(saved).seed in (1, 2), step
        pyro_gcm.save(GCM(2, 1, seed=1), saved, overwrite=True)
        assert len(content(saved)) == 2, step
    assert killed > 6


def test_a_model_that_is_replaced_while_it_is_loaded_is_the_old_one_or_the_new_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, later = Path.read_bytes, iter([2])

    def replacing(path: Path) -> bytes:
        raw = read(path)
        if path.name == "card.json" and (seed := next(later, None)):
            pyro_gcm.save(GCM(2, 1, seed=seed), saved, overwrite=True)
        return raw

    monkeypatch.setattr(Path, "read_bytes", replacing)
    assert pyro_gcm.load(saved).seed == 2
