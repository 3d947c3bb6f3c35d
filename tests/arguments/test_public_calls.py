"""Public functions and methods compute on one thread, and refuse rows that they cannot use."""

from __future__ import annotations

import copy
import functools
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from public_calls import OF_ROWS, PROGRAMS, TABLE, Call, R, X, Y, call, fitted, method, model
from pyro.infer import Trace_ELBO
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pyro_gcm import (
    audit_monotonicity,
    fit,
    fit_members,
    one_thread,
    save,
)
from pyro_gcm._utils.torch_state import torch_threads
from pyro_gcm.audit import audit_table
from pyro_gcm.cli import main
from pyro_gcm.diagnostics import reliability_curve, simulation_based_calibration
from pyro_gcm.estimators import GCMClassifier, GCMRegressor, Move
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.report import write_report

# Rows that cannot be used


Defects = list[tuple[Callable[[Tensor], Tensor], str]]


def _matrix(name: str, dim: str) -> Defects:
    """What is wrong with a matrix of rows, and the error."""
    return [
        (lambda t: t[:, :1], f"{name} has 1 columns, the model was built for {dim}="),
        (lambda t: t * float("nan"), f"{name} must be finite, got nan in row 0"),
        (lambda t: t[:0], f"{name} has no rows"),
    ]


_SHORTER: Defects = [(lambda t: t[:3], "row counts differ: .* has 3")]
#: Rows that cannot be used, by argument.
DEFECTS: dict[str, Defects] = {
    "x": _matrix("x", "x_dim"),
    "r": _matrix("r", "r_dim") + _SHORTER,
    "k": _matrix("k", "k_dim") + _SHORTER,
    "revenues": _matrix("revenues", "r_dim"),
    "y": [
        *_SHORTER,
        (lambda t: t * float("nan"), "y must be finite, got nan in row 0"),
        (lambda t: t + 1.0, r"y must be 0 or 1 for response='binary', got \[?2"),
    ],
}


def test_rows_that_cannot_be_used_are_refused_by_name_and_change_nothing() -> None:
    for name, make in (PROGRAMS | OF_ROWS).items():
        function, arguments = make()
        model = arguments.get("model", getattr(function, "__self__", None))
        before = copy.deepcopy(model.state_dict())
        for argument, defects in DEFECTS.items():
            if isinstance(arguments.get(argument), Tensor):
                for change, message in defects:
                    wrong = {**arguments, argument: change(arguments[argument])}
                    with pytest.raises(ValueError) as refused:  # noqa: PT011
                        pytest.fail(f"{name} takes {function(**wrong)}")
                    assert re.search(message, str(refused.value)), (name, argument)
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key]), (name, key)


# One thread, and as many as before afterwards


#: What public calls are given so that they end soon, where they have such an argument.
QUICK: dict[str, Any] = {
    "epochs": 1, "progress": False, "num_samples": 5, "num_particles": 30, "pairs": 9, "folds": 1,
}  # fmt: skip
ONE: Any = {"epochs": 1, "progress": False}
TRAINED = zoo.build("plain", torch.float32)
LABELS = Y.numpy()
FRAME = TABLE.assign(y=LABELS)
SETTINGS = MemberSettings(members=2, width=4, epochs=1)
SMALL: Any = {"monotonic_cst": {"d": 1}, "members": 2, "hidden": 4, "epochs": 1}


def command(line: str) -> None:
    FRAME.to_csv("data.csv", index=False)
    save(fitted(GCMClassifier), "model", overwrite=True)
    assert main([*line.split(), "--quiet"]) == 0


def of_table(name: str, kind: type = GCMClassifier, **given: Any) -> Callable[[], Call]:
    return method(lambda: fitted(kind), name, X=TABLE, **given)


#: Public calls that compute, whose arguments `QUICK` may change.
PUBLIC: dict[str, Callable[[], Call]] = {
    **{name: made for name, made in OF_ROWS.items() if name != "bound_by_particles"},
    "simulate": method(lambda: model("joint"), "simulate", size=3),
    "audit_monotonicity": lambda: call(audit_monotonicity, predictor=model(), x=X, r=R),
    "audit_table": lambda: call(audit_table, predictor=fitted(GCMClassifier), X=TABLE),
    "write_report": lambda: call(
        write_report, estimator=fitted(GCMClassifier), X=TABLE, path="a.html"
    ),
    "reliability_curve": lambda: call(reliability_curve, probability=Y * 0.5, y=Y),
    "predict": of_table("predict"),
    "predict_proba": of_table("predict_proba"),
    "predict_bands": of_table("predict_bands"),
    "required": of_table("required", feature="d", probability=0.5),
    "explain": of_table("explain", GCMRegressor, above=0.0),
    "response_curve": of_table("response_curve", feature="d"),
    "recourse": of_table("recourse", probability=0.5, movable={"d": Move()}),
    "predict_interval": of_table("predict_interval", GCMRegressor),
    "calibration": lambda: call(simulation_based_calibration, model=model(), x=X, r=R, num_draws=3),
}
#: Others, with options of their own.
CALLS: dict[str, Callable[[], Any]] = {
    "fit through Pyro": lambda: fit(TRAINED, X, R, Y, **ONE, elbo=Trace_ELBO(2)),
    "fit of batches": lambda: fit(TRAINED, [(X, R, Y)], **ONE),
    "fit_members": lambda: fit_members(X, R, Y, settings=SETTINGS, progress=False),
    "fit of an estimator": lambda: GCMClassifier(**SMALL).fit(TABLE, LABELS),
    "pyro-gcm fit": lambda: command(
        "fit data.csv --target=y --increasing=d --out=made --epochs=1 --members=2 --test-share=0.2"
    ),
    "pyro-gcm predict": lambda: command("predict model data.csv --bands"),
}


class Watching(TorchFunctionMode):
    """Notes on how many threads torch's functions run."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, set[str]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ not in ("__get__", "empty", "__int__"):  # no computation
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
def test_all_that_is_public_computes_on_one_thread() -> None:
    calls = dict(CALLS)
    for name, make in PUBLIC.items():
        function, arguments = make()
        quick = {key: value for key, value in QUICK.items() if key in arguments}
        calls[name] = functools.partial(function, **{**arguments, **quick})
    for name, run in calls.items():
        with Watching() as watching:
            run()
        assert set(watching.numbers) == {1}, (name, watching.numbers.get(3))
        assert torch.get_num_threads() == 3, name


def test_uses_are_nested_and_an_error_gives_the_threads_back() -> None:
    seen = []
    with pytest.raises(ZeroDivisionError), one_thread():  # noqa: PT012
        with torch_threads(2), one_thread():
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())
        raise ZeroDivisionError
    assert seen == [1, 1]
    assert torch.get_num_threads() == 3


def test_each_thread_of_python_gets_its_own_number_back() -> None:
    meet = threading.Barrier(6)

    def work(threads: int | None) -> int:
        meet.wait()
        if threads is not None:
            torch.set_num_threads(threads)
        for _ in range(50):
            with one_thread():
                assert torch.get_num_threads() == 1
        return torch.get_num_threads()

    # To new threads, torch would give the number of those that are inside.
    with one_thread(), ThreadPoolExecutor(6) as pool:
        assert [*pool.map(work, [None] * 6)] == [3] * 6
        assert [*pool.map(work, [2, 4] * 3)] == [2, 4] * 3
