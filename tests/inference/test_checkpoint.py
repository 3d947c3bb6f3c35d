"""A run that was interrupted goes on as if it had not been."""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import zoo
from training_runs import goes_on, same, stop_at, weights

from pyro_gcm import GCM, FitResult, MemberGCM, fit

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
    "patience": ({"validation": 0.3, "patience": 2, "learning_rate": 0.05}, 9, 7),
}


@pytest.mark.parametrize("case", RUNS)
def test_resumed_run_gives_the_numbers_of_an_uninterrupted_one(
    case: str, toy: zoo.Rows, tmp_path: Path
) -> None:
    (options, step, first), shifts = RUNS[case], iter((0.0, 0.0, 0.5))

    def run(**more: Any) -> tuple[GCM, FitResult]:
        model, shift = GCM(3, 2), next(shifts)
        for parameter in model.parameters():  # the weights of the resumed one are replaced
            parameter.data.add_(shift)
        return model, fit(model, *toy, **{**OPTIONS, **options, **more})

    goes_on(run, tmp_path / "deep" / "run.pt", step, first)


def test_members_go_on_in_the_units_of_the_checkpoint(toy: zoo.Rows, tmp_path: Path) -> None:
    untrained = MemberGCM(3, 2, members=2, hidden=8)
    fit(trained := copy.deepcopy(untrained), *toy, **OPTIONS)
    models = iter((copy.deepcopy(trained), trained, untrained))

    def run(**more: Any) -> tuple[MemberGCM, FitResult]:
        model = next(models)
        return model, fit(model, *toy, **OPTIONS, standardize=False, **more)

    goes_on(run, tmp_path / "run.pt", 5, 5)


@pytest.fixture(scope="module")
def written(toy: zoo.Rows, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("run") / "run.pt"
    with pytest.raises(KeyboardInterrupt, match=f"; the same call goes on from {path}"):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=stop_at(8))
    return path.read_bytes()


@pytest.fixture
def interrupted(written: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "run.pt"
    path.write_bytes(written)
    return path


class Other(GCM):
    """Another class."""


def test_checkpoint_of_another_run_is_refused(toy: zoo.Rows, interrupted: Path) -> None:
    before, plain = interrupted.read_bytes(), functools.partial(GCM, 3, 2)
    named = toy._replace(x=pd.DataFrame(toy.x.numpy(), columns=["a", "b", "c"]))
    weighted = {"sample_weight": torch.linspace(0.1, 2.0, 200)}
    for make, rows, options, message in (
        (plain, toy, {"seed": 4}, "seed is 0 there, 4 here"),
        (plain, toy, {"batch_size": 32}, "batch_size is 64 there, 32 here"),
        (plain, toy, {"validation": 0.5}, "validation is 0.0 there, 0.5 here"),
        (plain, toy, {"validation": 0.5, "patience": 2}, "patience is None there, 2 here"),
        (plain, toy, {"epochs": 6}, "epochs is 5 there, 6 here"),
        (plain, toy, {"elbo": "mean_field"}, "elbo is None there, mean_field here"),
        (plain, toy, {"num_particles": 4}, "num_particles is 8 there, 4 here"),
        (plain, toy, {"learning_rate": 0.5}, "learning_rate is 0.01 there, 0.5 here"),
        (plain, toy, {"standardize": False}, "standardize is True there, False here"),
        (plain, toy, {"optimizer": torch.optim.SGD}, "optimizer is None there, a function here"),
        (plain, toy, weighted, "sample_weight is False there, True"),
        (plain, named, {}, r"columns is .* there, .*'a', 'b', 'c'.* here"),
        (plain, zoo.Rows(*(column[1:] for column in toy)), {}, "rows is 200 there, 199 here"),
        (functools.partial(GCM, 3, 2, hidden=5), toy, {}, r"parameters is \d+ there, \d+ here"),
        (functools.partial(Other, 3, 2), toy, {}, "model is GCM there, Other here"),
        (
            functools.partial(GCM, 3, 2, prior="standard"),
            toy,
            {"objective": "joint"},
            "objective is conditional there, joint here",
        ),
    ):
        model = make()
        of_model = weights(model)
        with pytest.raises(ValueError, match=f"run.pt is of another training: .*{message}"):
            fit(model, *rows, **{**OPTIONS, **options, "checkpoint": interrupted})
        assert interrupted.read_bytes() == before
        assert same(of_model, weights(model)), message


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


@pytest.mark.parametrize("content", ["text", "nothing", "half", "pickle", "evil", "other"])
def test_what_is_no_checkpoint_is_refused_and_not_executed(
    content: str, toy: zoo.Rows, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(interrupted.parent)
    whole = interrupted.read_bytes()
    raw = {"text": b"not a checkpoint", "nothing": b"", "half": whole[: len(whole) // 2]}
    raw["pickle"] = pickle.dumps(Evil())
    if content in raw:
        interrupted.write_bytes(raw[content])
    else:
        content_of = BytesIO()
        torch.save({"given": {}, "state": Evil()} if content == "evil" else [1], content_of)
        raw = content_of.getvalue()
        interrupted.write_bytes(f"{hashlib.sha256(raw).hexdigest()}\n".encode() + raw)
    before, model = interrupted.read_bytes(), GCM(3, 2)
    of_model = weights(model)
    with pytest.raises(ValueError, match=r"^checkpoint .*run.pt .* delete it or name"):
        fit(model, *toy, **OPTIONS, checkpoint=interrupted)
    assert interrupted.read_bytes() == before
    assert same(of_model, weights(model))
    assert [*interrupted.parent.iterdir()] == [interrupted]


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_step(
    toy: zoo.Rows, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    path, steps = tmp_path / "file" / "run.pt", list[int]()
    with pytest.raises(OSError, match=r"run.pt could not be written: "):
        fit(GCM(3, 2), *toy, **OPTIONS, checkpoint=path, callback=steps.append)
    assert not steps
