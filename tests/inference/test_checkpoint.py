"""A run that was interrupted goes on as if it had not been."""

from __future__ import annotations

import contextlib
import math
import os
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from disks import full_disk
from toy_rows import Rows, same, weights

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.files import archive
from pyro_gcm.training.checkpoint import Checkpoint

OPTIONS = {"epochs": 5, "batch_size": 64, "num_particles": 8, "progress": False}


def stop_at(step: int) -> Callable[[int], None]:
    def callback(done: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    return callback


def without_time(result: FitResult) -> pd.DataFrame:
    return result.history.drop(columns="seconds")


def momentum(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def halving(optimizer: torch.optim.Optimizer, steps: int) -> Any:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({}, 5),
        ({"validation": 0.3, "learning_rate": 0.3}, 9),
        ({"elbo": "renyi", "schedule": None}, 12),
        ({"optimizer": momentum, "schedule": halving}, 5),
    ],
    ids=["default", "validation", "renyi", "own optimiser"],
)
def test_resumed_run_gives_the_numbers_of_an_uninterrupted_one(
    options: dict[str, Any], step: int, toy: Rows, tmp_path: Path
) -> None:
    whole = GCM(3, 2)
    wanted = fit(whole, *toy, **OPTIONS, **options)
    path = tmp_path / "deep" / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        fit(GCM(3, 2), *toy, **OPTIONS, **options, checkpoint=path, callback=stop_at(step))
    assert path.exists()
    resumed = GCM(3, 2, seed=9)  # its own weights are replaced
    steps: list[int] = []
    torch.manual_seed(99)
    got = fit(resumed, *toy, **OPTIONS, **options, checkpoint=path, callback=steps.append)
    assert 0 not in steps
    pd.testing.assert_frame_equal(without_time(wanted), without_time(got), check_exact=True)
    assert got.best_epoch == wanted.best_epoch
    expected = weights(whole)
    actual = weights(resumed)
    noise = "base_samples.samples"  # belongs to the seed of the model, and is restored with it
    assert torch.equal(expected[noise], actual[noise])
    assert same(expected, actual)
    assert not list(path.parent.iterdir())  # nothing left of a complete run


def test_checkpoint_changes_no_number(toy: Rows, tmp_path: Path) -> None:
    with_file, without = GCM(3, 2), GCM(3, 2)
    fit(with_file, *toy, **OPTIONS, checkpoint=str(tmp_path / "run.pt"))
    fit(without, *toy, **OPTIONS)
    assert same(weights(with_file), weights(without))


OTHER_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": 4}, "seed is 0 there, 4 here"),
    "batch size": ({"batch_size": 32}, "batch_size is 64 there, 32 here"),
    "validation": ({"validation": 0.5}, "validation rows is 0 there, 100 here"),
    "epochs": ({"epochs": 6}, "steps is 20 there, 24 here"),
    "bound": ({"elbo": "mean_field"}, "loss is ImportanceWeightedELBO.* there, TraceMeanField"),
    "particles": ({"num_particles": 4}, "loss is .*'num_particles': 8.*'num_particles': 4"),
    "learning rate": ({"learning_rate": 0.5}, "learning_rate is 0.01 there, 0.5 here"),
}


@pytest.fixture
def interrupted(toy: Rows, tmp_path: Path) -> Path:
    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=stop_at(8))
    return path


def test_checkpoint_of_another_objective_or_temperature_is_refused(
    toy: Rows, tmp_path: Path
) -> None:
    path, options = tmp_path / "run.pt", {**OPTIONS, "objective": "joint"}
    with pytest.raises(KeyboardInterrupt):
        fit(GCM(3, 2, prior="standard"), *toy, **options, checkpoint=path, callback=stop_at(8))
    other = GCM(3, 2, prior="standard")
    with pytest.raises(ValueError, match="objective is joint there, conditional here, temperature"):
        fit(other, *toy, **OPTIONS, temperature=0.1, checkpoint=path)


@pytest.mark.parametrize("case", OTHER_RUNS)
def test_checkpoint_of_a_run_with_other_options_is_refused(
    case: str, toy: Rows, interrupted: Path
) -> None:
    options, message = OTHER_RUNS[case]
    model = GCM(3, 2)
    before = weights(model)
    with pytest.raises(ValueError, match=f"checkpoint is of another run: .*{message}"):
        fit(model, *toy, **{**OPTIONS, **options}, checkpoint=interrupted)
    assert interrupted.exists()
    assert same(before, weights(model))


@pytest.mark.parametrize("column", ["x", "r", "y"])
def test_checkpoint_of_a_run_on_other_rows_is_refused(
    column: str, toy: Rows, interrupted: Path
) -> None:
    rows = toy._replace(**{column: toy._asdict()[column].flip(0)})
    with pytest.raises(ValueError, match="another run: checksum of the rows"):
        fit(GCM(3, 2), *rows, **OPTIONS, checkpoint=interrupted)


def test_checkpoint_of_another_model_is_refused(toy: Rows, interrupted: Path) -> None:
    model = GCM(3, 2, hidden=5)
    before = weights(model)
    with pytest.raises(ValueError, match=r"another run: shape of .* there, \[5, 3\] here"):
        fit(model, *toy, **OPTIONS, checkpoint=interrupted)
    assert same(before, weights(model))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a checkpoint", "does not begin as a file of pyro_gcm does"),
        (b"", "does not begin as a file of pyro_gcm does"),
        (b"PK\x03\x04 of torch.save", "is in a format that this version of pyro_gcm does not read"),
        (archive.packed({"other": b"content"}), "was not written by fit"),
        (None, "cannot be read: Is a directory"),
    ],
)
def test_file_of_another_kind_is_refused(
    content: bytes | None, message: str, toy: Rows, tmp_path: Path
) -> None:
    path = tmp_path / "run.pt"
    path.mkdir() if content is None else path.write_bytes(content)
    model = GCM(3, 2)
    before = weights(model)
    with pytest.raises(ValueError, match=rf"^checkpoint .*run.pt {message}. To train from"):
        fit(model, *toy, **OPTIONS, checkpoint=path)
    assert content is None or path.read_bytes() == content
    assert same(before, weights(model))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("case", range(20))
def test_no_flipped_bit_or_missing_byte_is_silent(case: int, interrupted: Path) -> None:
    original, draw, saved = interrupted.read_bytes(), random.Random(case), Checkpoint(interrupted)
    assert saved.read() is not None
    for number in range(125):
        raw, place = bytearray(original), draw.randrange(len(original))
        if number % 5 == 0:
            del raw[place:]
        else:
            raw[place] ^= 1 << draw.randrange(8)
        interrupted.write_bytes(raw)
        with pytest.raises(ValueError, match=r"^checkpoint .*run.pt .* delete it or name another"):
            saved.read()
    for head in range(200):  # where a bit counts most
        raw = bytearray(original)
        raw[head] ^= 1 << draw.randrange(8)
        interrupted.write_bytes(raw)
        with pytest.raises(ValueError, match=r"^checkpoint .*run.pt"):
            saved.read()


def test_file_is_whole_or_old_when_saving_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.pt"
    saved = Checkpoint(path)
    assert saved.read() is None
    saved.save({"identity": 0})

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, interrupt)
            with pytest.raises(KeyboardInterrupt):
                saved.save({"identity": 1})
        assert saved.read() == {"identity": 0}
        assert list(tmp_path.iterdir()) == [path]
    saved.remove()
    assert not path.exists()


def test_states_come_back_as_they_were(tmp_path: Path) -> None:
    state = {
        "tensors": [torch.tensor(float("nan")), torch.arange(6).reshape(2, 3).t(), torch.ones(0)],
        "numbers": (1, 2.5, 0.1, -math.inf, math.inf, True, None, "text"),
        "by number": {0: {"step": torch.tensor(3.0)}, 7: {}},
        "counted": Counter({10: 2}),
        "ordered": OrderedDict(b=1, a=2),
    }
    saved = Checkpoint(tmp_path / "state")
    saved.save(state)
    found = saved.read()
    assert found is not None
    assert found.keys() == state.keys()
    for mine, theirs in zip(state.pop("tensors"), found.pop("tensors"), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
    assert repr(found) == repr(state)
    for strange in (print, object(), {"a": {1, 2}}, torch.ones(2, dtype=torch.complex64)):
        with pytest.raises(TypeError, match=r"^state\.value.*(cannot hold|must be a dense, real)"):
            saved.save({"value": strange})
    assert saved.read() is not None


def test_a_state_that_cannot_be_saved_is_refused_before_the_first_step(
    toy: Rows, tmp_path: Path
) -> None:
    class Strange(torch.optim.SGD):
        def state_dict(self) -> dict[str, Any]:
            return {**super().state_dict(), "history": {1, 2}}

    steps: list[int] = []
    options: Any = {"optimizer": Strange, "callback": steps.append, "checkpoint": tmp_path / "run"}
    with pytest.raises(TypeError, match=r"^state.optimizer.history is a set"):
        fit(GCM(3, 2), *toy, **OPTIONS, **options)
    assert not steps
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_step(
    toy: Rows, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    path, steps = tmp_path / "file" / "run.pt", list[int]()
    with pytest.raises(OSError, match=r"run.pt could not be written: "):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=steps.append)
    assert not steps


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(toy: Rows, tmp_path: Path) -> None:
    whole, path = GCM(3, 2), tmp_path / "run.pt"
    fit(whole, *toy, **OPTIONS)
    with contextlib.ExitStack() as stack:

        def fill(step: int) -> None:
            if step == 6:  # in the second epoch
                stack.enter_context(full_disk())

        with pytest.raises(OSError, match=r"run.pt could not be written: File too large; what was"):
            fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=fill)
    assert list(tmp_path.iterdir()) == [path]
    steps: list[int] = []
    resumed = GCM(3, 2)
    fit(resumed, *toy, **OPTIONS, checkpoint=path, callback=steps.append)
    assert steps[0] == 5
    assert same(weights(whole), weights(resumed))


def test_no_path_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved = Checkpoint(None)
    saved.save({"identity": 0})
    assert saved.read() is None
    saved.remove()
    assert not list(tmp_path.iterdir())
