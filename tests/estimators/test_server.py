"""The example of a server: rows that wait together, and rows that cannot be used."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pyro_gcm import save
from pyro_gcm.estimators import GCMClassifier

fastapi = pytest.importorskip("fastapi", reason="the extra `serving` is not installed")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "server.py"


@pytest.fixture(scope="module")
def table() -> tuple[GCMClassifier, pd.DataFrame]:
    noise = np.random.default_rng(0)
    X = pd.DataFrame({"debt": noise.uniform(0, 9, 80), "job": noise.choice(["smith", "cook"], 80)})
    X.loc[::9, "job"] = None
    return GCMClassifier(monotonic_cst={"debt": 1}, members=2, epochs=1).fit(X, X["debt"] > 4), X


def example(model: GCMClassifier, path: Path, patch: pytest.MonkeyPatch) -> Any:
    """The module of the server, with a saved model."""
    patch.setenv("MODEL", str(save(model, path / "model")))
    spec = importlib.util.spec_from_file_location("server", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    server = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, "server", server)
    spec.loader.exec_module(server)
    return server


def answers(
    model: GCMClassifier,
    requests: list[list[dict[str, Any]]],
    path: Path,
    patch: pytest.MonkeyPatch,
) -> tuple[list[Any], int]:
    """What requests that are sent at once get, and how many calls of the model they took."""
    server = example(model, path, patch)

    async def run() -> tuple[list[Any], int]:
        async with server.life(server.app):
            batches, calls = server.app.state.batches, []
            score = batches.score
            batches.score = lambda frame: calls.append(len(frame)) or score(frame)
            batches.score.names = score.names
            sent = [server.predict(server.Request(rows=rows)) for rows in requests]
            return await asyncio.gather(*sent, return_exceptions=True), len(calls)

    return asyncio.run(run())


def rows_of(X: pd.DataFrame) -> list[dict[str, Any]]:
    return X.astype(object).where(X.notna(), None).to_dict("records")


def test_requests_that_wait_together_are_one_call(
    table: tuple[GCMClassifier, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X = table
    found, calls = answers(
        model, [rows_of(X[start : start + 7]) for start in range(0, 80, 7)], tmp_path, monkeypatch
    )
    shown = [row for answer in found for row in answer["predictions"]]
    assert [row["probability"] for row in shown] == model.predict_proba(X)[:, 1].tolist()
    assert [row["class"] for row in shown] == model.predict(X).tolist()
    assert calls <= 2


def test_wrong_rows_are_refused_and_the_others_answered(
    table: tuple[GCMClassifier, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X = table
    good = rows_of(X[:2])
    wrong = [{"debt": "much", "job": "cook"}]
    found, _ = answers(model, [good, wrong, [{"debt": 1.0}], good], tmp_path, monkeypatch)
    assert found[0] == found[3]
    assert len(found[0]["predictions"]) == 2
    assert [error.status_code for error in found[1:3]] == [422, 422]
    assert "'debt' of X had numbers in fit, got text" in found[1].detail
    assert found[2].detail == "a row lacks ['job']; null is a missing value"


def test_an_error_of_the_model_answers_and_the_server_goes_on(
    table: tuple[GCMClassifier, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = example(table[0], tmp_path, monkeypatch)
    rows = [{"debt": 1.0, "job": None}]

    async def run() -> list[Any]:
        async with server.life(server.app):
            batches = server.app.state.batches
            score = batches.score

            def broken(frame: pd.DataFrame) -> None:
                raise RuntimeError("out of memory")

            broken.names = score.names  # type: ignore[attr-defined]
            batches.score = broken
            first = await asyncio.gather(batches.answer(rows), return_exceptions=True)
            batches.score = score
            gone = asyncio.create_task(batches.answer(rows))
            await asyncio.sleep(0)
            gone.cancel()
            return [*first, await asyncio.wait_for(batches.answer(rows), 30)]

    error, found = asyncio.run(run())
    assert isinstance(error, RuntimeError)
    assert len(found) == 1
