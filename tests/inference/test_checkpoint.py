"""A run that was interrupted goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from toy_rows import Rows, same, weights

from pyro_gcm import GCM, FitResult, fit
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


def test_a_checkpoint_from_before_seeds_were_saved_is_resumed(toy: Rows, tmp_path: Path) -> None:
    whole, resumed, path = GCM(3, 2), GCM(3, 2), tmp_path / "run.pt"
    fit(whole, *toy, **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=stop_at(5))
    state = torch.load(path, weights_only=True)
    del state["model"]["base_samples._extra_state"]
    state["identity"].pop("shape of base_samples._extra_state", None)
    torch.save(state, path)
    fit(resumed, *toy, **OPTIONS, checkpoint=path)
    assert same(weights(whole), weights(resumed))


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


@pytest.mark.parametrize("what", ["text", "weights"])
def test_file_of_another_kind_is_refused(what: str, toy: Rows, tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    if what == "text":
        path.write_text("not a checkpoint")
    else:
        torch.save(GCM(3, 2).state_dict(), path)
    with pytest.raises(ValueError, match=r"checkpoint .*run.pt (cannot be read|was not written)"):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path)
    assert path.exists()


def test_file_is_whole_or_old_when_saving_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.pt"
    saved = Checkpoint(path)
    assert saved.read() is None
    saved.save({"identity": 0})

    def half(state: Any, target: Path) -> None:
        target.write_bytes(b"half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(KeyboardInterrupt):
        saved.save({"identity": 1})
    assert saved.read() == {"identity": 0}
    saved.remove()
    assert not path.exists()


def test_no_path_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved = Checkpoint(None)
    saved.save({"identity": 0})
    assert saved.read() is None
    saved.remove()
    assert not list(tmp_path.iterdir())
