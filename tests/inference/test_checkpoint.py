"""A run that was interrupted goes on as if it had not been."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from disks import full_disk
from safetensors.torch import save as torch_save
from training_cases import Rows
from training_runs import goes_on, same, stop_at, weights

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm._utils import archive, plain_data
from pyro_gcm._utils.archive import DamagedFile
from pyro_gcm.training import gathered
from pyro_gcm.training.checkpoint import Checkpoint

OPTIONS = {"epochs": 5, "batch_size": 64, "num_particles": 8, "progress": False}


def momentum(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def halving(optimizer: torch.optim.Optimizer, steps: int) -> Any:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


#: Options of `fit`, the step at which the run is interrupted, and that at which it goes on.
RUNS: dict[str, tuple[dict[str, Any], int, int]] = {
    "default": ({}, 5, 5),
    "renyi": ({"elbo": "renyi", "schedule": None}, 12, 9),
    "own optimiser": ({"optimizer": momentum, "schedule": halving}, 5, 5),
    "weights": ({"sample_weight": torch.linspace(0.1, 2.0, 200)}, 5, 5),
    # The average of the weights is stored with them.
    "patience": ({"validation": 0.3, "patience": 2, "learning_rate": 0.3}, 9, 7),
}


@pytest.mark.parametrize("case", RUNS)
def test_resumed_run_gives_the_numbers_of_an_uninterrupted_one(
    case: str, toy: Rows, tmp_path: Path
) -> None:
    (options, step, first), shifts = RUNS[case], iter((0.0, 0.0, 0.5))

    def run(**more: Any) -> tuple[GCM, FitResult]:
        model, shift = GCM(3, 2), next(shifts)
        for parameter in model.parameters():  # the weights of the resumed one are replaced
            parameter.data.add_(shift)
        return model, fit(model, *toy, **gathered({**OPTIONS, **options, **more}))

    goes_on(run, tmp_path / "deep" / "run.pt", step, first)


#: Other options of the model and of `fit`, and what is said of them.
OTHER_RUNS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "seed": ({}, {"seed": 4}, "seed is 0 there, 4 here"),
    "batch size": ({}, {"batch_size": 32}, "batch_size is 64 there, 32 here"),
    "validation": ({}, {"validation": 0.5}, "validation rows is 0 there, 100 here"),
    "averages": ({}, {"validation": 0.5, "patience": 2}, "patience is None there, 2 here"),
    "epochs": ({}, {"epochs": 6}, "epochs is 5 there, 6 here"),
    "bound": ({}, {"elbo": "mean_field"}, "loss is Importance.* there, TraceMeanField"),
    "particles": ({}, {"num_particles": 4}, "loss is .*'num_particles': 8.*'num_particles': 4"),
    "learning rate": ({}, {"learning_rate": 0.5}, "learning_rate is 0.01 there, 0.5 here"),
    "objective": (
        {"prior": "standard"}, {"objective": "joint"}, "objective is conditional there, joint here"
    ),
    "temperature": (
        {"guide": "posterior"}, {"temperature": 0.1}, "temperature is 1.0 there, 0.1 here"
    ),
    "units": ({}, {"standardize": False}, "standardize is True there, False here"),
    "model": ({"hidden": 5}, {}, r"shape of .* there, \[5, 3\] here"),
    "weights": (
        {}, {"sample_weight": torch.linspace(0.1, 2.0, 200)}, "weights of rows is False there, True"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def written(toy: Rows, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("run") / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=stop_at(8))
    return path.read_bytes()


@pytest.fixture
def interrupted(written: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "run.pt"
    path.write_bytes(written)
    return path


@pytest.mark.parametrize("case", OTHER_RUNS)
def test_checkpoint_of_another_run_is_refused(case: str, toy: Rows, interrupted: Path) -> None:
    parts, options, message = OTHER_RUNS[case]
    model, before = GCM(3, 2, **parts), interrupted.read_bytes()
    of_model = weights(model)
    with pytest.raises(ValueError, match=f"checkpoint is of another run: .*{message}"):
        fit(model, *toy, **gathered({**OPTIONS, **options, "checkpoint": interrupted}))
    assert interrupted.read_bytes() == before
    assert same(of_model, weights(model))


def test_no_flipped_bit_or_missing_byte_is_silent(interrupted: Path) -> None:
    original, saved = interrupted.read_bytes(), Checkpoint(interrupted)
    assert saved.read() is not None
    # Every byte of the head, where a bit counts most, and some of each part of the content.
    for place in [*range(100), *range(100, len(original), len(original) // 50)]:
        flipped = bytearray(original)
        flipped[place] ^= 1 << place % 8
        for damaged in (flipped, original[:place]):
            interrupted.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"^checkpoint .*run.pt .* delete it or"):
                saved.read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"not a checkpoint",
            "was changed, or is no such file: it does not begin with",
        ),
        (b"", "was changed, or is no such file: it does not begin with"),
        (archive.sealed(torch_save({})), "KeyError 'state'"),
    ],
)
def test_file_of_another_kind_is_refused(
    content: bytes, message: str, toy: Rows, tmp_path: Path
) -> None:
    path = tmp_path / "run.pt"
    path.write_bytes(content)
    model = GCM(3, 2)
    before = weights(model)
    with pytest.raises(ValueError, match=rf"^checkpoint .*run.pt {message}.* To train from"):
        fit(model, *toy, **OPTIONS, checkpoint=path)
    assert path.read_bytes() == content
    assert same(before, weights(model))


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
        with pytest.raises(TypeError, match=r"^state\.value.*must be (None|a dense, real)"):
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
    with pytest.raises(TypeError, match=r"^state.optimizer.history must be .* got set"):
        fit(GCM(3, 2), *toy, **gathered({**OPTIONS, **options}))
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


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("model"),
        lambda state: state.pop("identity"),
        lambda state: state.pop("best"),
        lambda state: state.update(identity=3),
        lambda state: state.update(rows=3),
        lambda state: state["optimizer"].pop("state"),
    ],
    ids=itertools.count(),
)
def test_forged_state_is_a_damaged_file(change: Any, toy: Rows, interrupted: Path) -> None:
    saved = Checkpoint(interrupted)
    state: Any = saved.read()
    change(state)
    saved.save(state)
    with pytest.raises(DamagedFile, match=r"^checkpoint .*run.pt .* delete it or name another"):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=interrupted)


def test_forged_trees_and_contents_are_damaged_files(tmp_path: Path) -> None:
    saved = Checkpoint(tmp_path / "state")
    trees: list[Any] = [
        [],
        {"tensor": "x"},
        {"tensor": []},
        {"dict": [1]},
        {"a": 1},
        {"number": []},
    ]
    trees += [{}, {"list": 3}, {"tuple": None}, {"dict": [[{"list": []}, 1]]}]
    for tree in [*trees, *({"list": [tree]} for tree in trees)]:
        raw = bytearray(plain_data.written(tree))
        state = torch_save({"state": torch.frombuffer(raw, dtype=torch.uint8)})
        saved.path.write_bytes(archive.sealed(state))
        with pytest.raises(DamagedFile):
            saved.read()
