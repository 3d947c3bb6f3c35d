"""The library computes on one thread, and torch has as many as before afterwards."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pytest
import torch
import zoo
from torch.overrides import TorchFunctionMode

from pyro_gcm import (
    GCM,
    audit,
    audit_monotonicity,
    baselines,
    compare_assumptions,
    diagnostics,
    fit,
    fit_members,
    one_thread,
    save,
    to_arviz,
)
from pyro_gcm._utils import threads
from pyro_gcm._utils.threads import torch_threads
from pyro_gcm.boosted import BoostedScore
from pyro_gcm.cli import main
from pyro_gcm.estimators import GCMClassifier, GCMRegressor
from pyro_gcm.members import MemberSettings
from pyro_gcm.report import write_report
from pyro_gcm.training import FitSettings

X, R, Y = zoo.rows(count=60).map(torch.Tensor.float)[:3]
LABELS = Y.numpy()
TABLE = pd.DataFrame({"debt": R[:, 0].numpy(), "age": X[:, 0].numpy(), "job": ["a", "b"] * 30})
FRAME = pd.DataFrame(torch.cat([X, R, Y[:, None]], 1).numpy(), columns=[*"abcdey"])
QUICK: Any = {"epochs": 1, "progress": False}
SETTINGS = MemberSettings(members=2, width=4, epochs=1)
FIT_COMMAND = (
    *("fit", "data.csv", "--target=y", "--increasing=debt", "--out=made"),
    *("--epochs=1", "--members=2", "--test-share=0.2"),
)
SMALL: Any = {"monotonic_cst": {"debt": 1}, "members": 2, "hidden": 4, "epochs": 1}


def gcm() -> GCM:
    return GCM(3, 2, hidden=4, num_samples=8)


MODEL, TRAINED, BASELINE = gcm(), gcm(), baselines.MLP(3, 2, hidden=4)
SCORE = BoostedScore("revenue", "sklearn", max_iter=2)
CLASSIFIER, REGRESSOR = GCMClassifier(**SMALL), GCMRegressor(**SMALL)


@pytest.fixture(scope="module", autouse=True)
def fitted() -> None:
    SCORE.fit(X, R, Y)
    CLASSIFIER.fit(TABLE, LABELS)
    REGRESSOR.fit(TABLE, TABLE["debt"])


def command(*arguments: str) -> None:
    TABLE.assign(y=LABELS).to_csv("data.csv", index=False)
    if arguments[0] != "fit":
        save(CLASSIFIER, "model")
    assert main([*arguments, "--quiet"]) == 0


PYRO = FitSettings(engine="pyro")
#: What is public and computes.
CALLS: dict[str, Callable[[], Any]] = {
    "fit": lambda: fit(TRAINED, X, R, Y, **QUICK, num_particles=2, validation=0.2),
    "fit through Pyro": lambda: fit(TRAINED, X, R, Y, **QUICK, num_particles=2, settings=PYRO),
    "fit of a table": lambda: fit(TRAINED, ["a", "b", "c"], ["d", "e"], "y", data=FRAME, **QUICK),
    "fit_members": lambda: fit_members(X, R, Y, settings=SETTINGS, progress=False),
    "baselines.fit": lambda: baselines.fit(BASELINE, X, R, Y, **QUICK),
    "baselines.fit_many": lambda: baselines.fit_many([BASELINE], [X], [R], [Y], seeds=[0], **QUICK),
    "predict": lambda: MODEL.predict(X, R),
    "predict of a baseline": lambda: BASELINE.predict(X, R),
    "surface": lambda: MODEL.surface(X, R),
    "surface of a baseline": lambda: BASELINE.surface(X, R),
    "cost": lambda: MODEL.cost(X),
    "log_prob": lambda: MODEL.log_prob(X, R, Y),
    "required_revenue": lambda: MODEL.required_revenue(X, 0.5),
    "simulate": lambda: MODEL.simulate(x=X, r=R),
    "cost_posterior": lambda: MODEL.cost_posterior(X, R, Y, num_samples=5, progress=False),
    "to_arviz": lambda: to_arviz(MODEL, X, R, Y, num_samples=5, progress=False),
    "BoostedScore.fit": lambda: SCORE.fit(X, R, Y),
    "BoostedScore.columns": lambda: SCORE.columns(X, R),
    "audit_monotonicity": lambda: audit_monotonicity(
        lambda x, r: r.exp().sum(1), X, R, pairs=60, progress=False
    ),
    "audit_table": lambda: audit.audit_table(CLASSIFIER, TABLE, pairs=9, progress=False),
    "importance_diagnostics": lambda: diagnostics.importance_diagnostics(
        MODEL, X, R, Y, num_particles=30, progress=False
    ),
    "simulation_based_calibration": lambda: diagnostics.simulation_based_calibration(
        MODEL, X, R, num_draws=3, progress=False
    ),
    "reliability_curve": lambda: diagnostics.reliability_curve(Y, Y),
    "compare_assumptions": lambda: compare_assumptions(
        (X, R, Y), folds=1, num_particles=2, **QUICK
    ),
    "fit of an estimator": lambda: GCMClassifier(**SMALL, bootstrap=1).fit(TABLE, LABELS),
    "predict of an estimator": lambda: CLASSIFIER.predict(TABLE),
    "predict_proba": lambda: CLASSIFIER.predict_proba(TABLE),
    "predict_bands": lambda: CLASSIFIER.predict_bands(TABLE),
    "required": lambda: CLASSIFIER.required(TABLE, "debt", 0.5),
    "explain": lambda: CLASSIFIER.explain(TABLE),
    "response_curve": lambda: CLASSIFIER.response_curve(TABLE, "debt", [0.0, 1.0]),
    "predict_interval": lambda: REGRESSOR.predict_interval(TABLE),
    "scorer": lambda: CLASSIFIER.scorer()(TABLE),
    "write_report": lambda: write_report(
        CLASSIFIER, TABLE, LABELS, path="report.html", pairs=30, progress=False
    ),
    "pyro-gcm fit": lambda: command(*FIT_COMMAND),
    "pyro-gcm predict": lambda: command("predict", "model", "data.csv", "--bands"),
}


class Watching(TorchFunctionMode):
    """Notes on how many threads torch's functions run."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, set[str]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ not in ("__get__", "empty"):  # an attribute, a place
            self.numbers.setdefault(torch.get_num_threads(), set()).add(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, and torch has three threads, also afterwards."""
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_all_that_is_public_computes_on_one_thread(name: str) -> None:
    with Watching() as watching:
        CALLS[name]()
    assert set(watching.numbers) == {1}, watching.numbers.get(3)
    assert torch.get_num_threads() == 3


#: What has an option of its own for the number of threads.
TRAININGS: dict[str, Callable[..., Any]] = {
    "fit": lambda **threads: fit(TRAINED, X, R, Y, **QUICK, settings=FitSettings(**threads)),
    "fit_members": lambda **threads: fit_members(
        X, R, Y, settings=SETTINGS, progress=False, **threads
    ),
    "baselines.fit": lambda **threads: baselines.fit(BASELINE, X, R, Y, **QUICK, **threads),
    "estimator": lambda **threads: GCMClassifier(**SMALL, **threads).fit(TABLE, LABELS),
    "command": lambda threads: command(*FIT_COMMAND, f"--threads={threads}"),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_training_has_as_many_threads_as_it_is_told(name: str) -> None:
    with Watching() as watching:
        TRAININGS[name](threads=2)
    assert set(watching.numbers) <= {1, 2}
    assert "backward" in watching.numbers[2]


def test_predictions_of_a_callback_run_on_one_thread_and_others_of_it_as_the_training() -> None:
    seen = []

    def callback(step: int) -> None:
        with Watching() as watching:
            MODEL.predict(X, R)
        seen.extend([set(watching.numbers), torch.get_num_threads()])

    fit(TRAINED, X, R, Y, **QUICK, settings=FitSettings(threads=2), callback=callback)
    assert seen == [{1}, 2] * 2


def test_uses_are_nested_and_an_error_gives_the_threads_back() -> None:
    seen = []
    with pytest.raises(ZeroDivisionError), one_thread():  # noqa: PT012
        with torch_threads(2), one_thread():
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())
        raise ZeroDivisionError
    assert seen == [1, 1]
    assert torch.get_num_threads() == 3


def test_an_interrupted_training_gives_the_threads_back() -> None:
    def callback(step: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(TRAINED, X, R, Y, **QUICK, settings=FitSettings(threads=2), callback=callback)
    assert torch.get_num_threads() == 3


def test_an_interrupt_at_any_instruction_gives_the_threads_back() -> None:
    left = 0

    def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in (threads.__file__, contextlib.__file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return interrupt

    tracing = sys.gettrace()
    for start in itertools.count():
        left = start
        try:
            sys.settrace(interrupt)
            with one_thread():
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracing)
        assert torch.get_num_threads() == 3, start
        if left >= 0:
            break
    assert start > 50


def test_each_thread_of_python_gets_its_own_number_back() -> None:
    meet = threading.Barrier(6)

    def work(own: int | None) -> int:
        meet.wait()
        if own is not None:
            torch.set_num_threads(own)
        for _ in range(50):
            with one_thread():
                assert torch.get_num_threads() == 1
        return torch.get_num_threads()

    # To new threads, torch would give the number of those that are inside.
    with one_thread(), ThreadPoolExecutor(6) as pool:
        assert [*pool.map(work, [None] * 6)] == [3] * 6
        assert [*pool.map(work, [2, 4] * 3)] == [2, 4] * 3
