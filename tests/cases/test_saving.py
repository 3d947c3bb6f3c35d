"""Nothing trained is lost: where models and files are written, with whose permissions, and when."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from disks import content, full_disk
from loans import table

from pyro_gcm import GCM, load, save
from pyro_gcm._utils.files import write_file
from pyro_gcm.estimators.estimator import MonotoneEstimator

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, owners and pipes of POSIX")
#: The other user of the test of owners.
NOBODY = 65534


def mode(path: Path) -> int:
    """The permissions of a file or a folder."""
    return stat.S_IMODE(path.stat().st_mode)


def test_the_working_folder_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (1, 7):
        save(GCM(2, 1, seed=seed), ".", overwrite=True)
        assert Path.cwd().samefile(tmp_path)
        assert load(".").seed == seed


@posix
def test_what_is_replaced_leaves_its_permissions_and_its_owner(tmp_path: Path) -> None:
    place, file = save(GCM(2, 1), tmp_path / "model"), tmp_path / "scores.csv"
    file.write_text("old")
    closed = {place: 0o700, place / "card.json": 0o600, file: 0o640}
    # Only root may give files to others.
    owner = (NOBODY, NOBODY) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    for path, permissions in closed.items():
        path.chmod(permissions)
        os.chown(path, *owner)
    write_file(file, b"new")
    save(GCM(2, 1, seed=2), place, overwrite=True)
    assert {path: mode(path) for path in closed} == closed
    assert {(path.stat().st_uid, path.stat().st_gid) for path in closed} == {owner}
    fresh = tmp_path / "fresh"
    fresh.touch()
    assert [mode(path) for path in place.glob("weights-*.safetensors")] == [mode(fresh)]


def test_what_file_managers_leave_in_a_folder_stays_there(tmp_path: Path) -> None:
    for name in (".DS_Store", "._card.json", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints/"):
        folder = tmp_path / f"with {name.strip('/')}"
        folder.mkdir()
        left = folder / name
        left.mkdir() if name.endswith("/") else left.write_bytes(b"left")
        for seed, overwrite in ((1, False), (2, True)):
            save(GCM(2, 1, seed=seed), folder, overwrite=overwrite)
            assert load(folder).seed == seed, name
            assert left.exists(), name


def test_the_advice_for_a_metric_that_is_no_number_works(tmp_path: Path) -> None:
    for value in (float("nan"), float("inf")):
        place, advice = tmp_path / str(value), r"metrics\.auc must be finite, got .*: pass None"
        with pytest.raises(ValueError, match=f"{advice}, or the text '{value}'"):
            save(GCM(2, 1), place, metrics={"auc": value})
        for instead in (None, str(value)):
            save(GCM(2, 1), place, metrics={"auc": instead}, overwrite=True)


# The command line


COLUMNS = ("--target=default", "--ignore=id,loss,grade,time,event", "--quiet")


@pytest.mark.parametrize("kind", ["full disk", "under a file"])
def test_a_place_that_cannot_be_written_is_found_out_before_the_training(
    kind: str, tmp_path: Path, fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table().to_csv("data.csv", index=False)
    monkeypatch.setattr(MonotoneEstimator, "_learn", pytest.fail)
    before = content(tmp_path)
    out = "data.csv/model" if kind == "under a file" else "model"
    with full_disk() if kind == "full disk" else nullcontext():
        done = fit(Path("data.csv"), *COLUMNS, f"--out={out}", code=2)
    assert f"error: --out: {out} could not be written: " in done.err
    assert content(tmp_path) == before


def test_a_model_is_saved_before_it_is_scored(
    fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyro_gcm.estimators.kinds.scores", interrupted)
    fit(table(), *COLUMNS, "--test-share=0.2", code=130)
    assert load("model").n_iter_ == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_scores_that_there_cannot_be_are_told_of(
    value: float | None,
    fit: Callable[..., Any],
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scores(*_: Any) -> dict[str, float]:
        if value is None:
            raise ValueError("a label\nis unknown")
        return {"auc": value, "accuracy": 0.5}

    monkeypatch.setattr("pyro_gcm.estimators.kinds.scores", scores)
    done = fit(table(), *COLUMNS, "--test-share=0.2", "--json")
    if value is None:
        told, kept = "no score of the rows held out: a label is unknown", {}
    else:
        told = f"auc of the rows held out is {value}"
        kept = {"auc": None if value != value else "inf", "accuracy": 0.5}
    assert f"warning: {told}" in done.err
    assert done.json["scores"] == kept
    assert run("info", "model", "--json").json["scores"] == kept
