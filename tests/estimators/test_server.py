"""The example of a server: rows that wait together, and rows that cannot be used."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from loans import loans

from pyro_gcm import save
from pyro_gcm.estimators import GCMClassifier

fastapi = pytest.importorskip("fastapi", reason="the extra `serving` is not installed")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "server.py"


Table = tuple[GCMClassifier, pd.DataFrame]


@pytest.fixture(scope="module")
def table() -> Table:
    X, y = loans(80)
    X = X[["debt", "job"]]
    return GCMClassifier(monotonic_cst={"debt": 1}, members=2, epochs=1).fit(X, y), X


@pytest.fixture
def server(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the server, with a saved model."""
    monkeypatch.setenv("MODEL", str(save(table[0], tmp_path / "model")))
    spec = importlib.util.spec_from_file_location("server", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "server", module)
    spec.loader.exec_module(module)
    return module


def live(server: Any, work: Callable[[], Awaitable[Any]]) -> Any:
    """The result of what is done while the server is up."""

    async def run() -> Any:
        async with server.life(server.app):
            return await work()

    return asyncio.run(run())


def answers(server: Any, requests: list[list[dict[str, Any]]]) -> tuple[list[Any], int]:
    """What requests that are sent at once get, and how many calls of the model they took."""

    async def ask() -> tuple[list[Any], int]:
        batches, calls = server.app.state.batches, []
        score = batches.score
        batches.score = lambda rows: calls.append(len(rows)) or score(rows)
        sent = [server.predict(server.Request(rows=rows)) for rows in requests]
        return await asyncio.gather(*sent, return_exceptions=True), len(calls)

    return live(server, ask)


def rows_of(X: pd.DataFrame) -> list[dict[str, Any]]:
    return X.astype(object).where(X.notna(), None).to_dict("records")


def test_requests_that_wait_together_are_one_call(table: Table, server: Any) -> None:
    model, X = table
    found, calls = answers(server, [rows_of(X[start : start + 7]) for start in range(0, 80, 7)])
    shown = [row for answer in found for row in answer["predictions"]]
    assert [row["probability"] for row in shown] == model.predict_proba(X)[:, 1].tolist()
    assert [row["class"] for row in shown] == model.predict(X).tolist()
    assert calls <= 2


@pytest.mark.filterwarnings("ignore:column 'job' has in")
def test_wrong_rows_are_refused_and_the_others_answered(table: Table, server: Any) -> None:
    good = rows_of(table[1][:2])
    found, _ = answers(server, [good, [{"debt": "much", "job": "cook"}], [{"debt": 1.0}], good])
    assert found[0] == found[3]
    assert len(found[0]["predictions"]) == 2
    assert [error.status_code for error in found[1:3]] == [422, 422]
    assert "'debt' of X had numbers in fit, got text" in found[1].detail
    assert found[2].detail == "a row lacks ['job']; null is a missing value"


def test_an_error_of_the_model_answers_and_the_server_goes_on(server: Any) -> None:
    rows = [{"debt": 1.0, "job": None}]

    async def ask() -> list[Any]:
        batches = server.app.state.batches
        score = batches.score

        def broken(rows: list[Any]) -> None:
            raise RuntimeError("out of memory")

        batches.score = broken
        first = await asyncio.gather(batches.answer(rows), return_exceptions=True)
        batches.score = score
        gone = asyncio.create_task(batches.answer(rows))
        await asyncio.sleep(0)
        gone.cancel()
        return [*first, await asyncio.wait_for(batches.answer(rows), 30)]

    error, found = live(server, ask)
    assert isinstance(error, RuntimeError)
    assert len(found) == 1


def status(server: Any, *parts: bytes, ends: bool = True, kind: bytes = b"application/json") -> int:
    """The status of the answer to a request whose body comes in parts, and perhaps not to its end.

    The time in which it has to come is a tenth of a second.
    """
    server.SECONDS = 0.1
    head = [(b"content-type", kind)]
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": head}
    scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": ""}
    sent: list[dict[str, Any]] = []

    waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    waiting[-1]["more_body"] = not ends

    async def receive() -> Any:
        return waiting.pop(0) if waiting else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    live(server, lambda: asyncio.wait_for(server.app(scope, receive, send), 30))
    return int(sent[0]["status"])


def test_requests_that_are_too_large_or_too_slow_are_refused(server: Any) -> None:
    row = b'{"debt": 1.0, "job": null}'

    def body(count: int) -> bytes:
        return b'{"rows": [' + b",".join([row] * count) + b"]}"

    assert status(server, body(1)[:9], body(1)[9:]) == 200
    assert status(server, body(1024)) == 200
    assert status(server, body(1025)) == 413
    assert status(server, *[b" " * (1 << 18)] * 4, b"  ") == 413
    assert status(server, *[b" " * (1 << 18)] * 9, ends=False) == 413
    assert status(server, body(1)[:9], ends=False) == 408
    assert status(server, b"\xf2\x28", kind=b"text/plain") == 400  # FastAPI's answer to it fails
