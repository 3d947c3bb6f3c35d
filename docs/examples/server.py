"""A saved estimator behind HTTP: rows that wait at the same time are predicted in one call.

    MODEL=loans uvicorn --app-dir docs/examples server:app

A request is `POST /predict` with `{"rows": [{"debt": 9.5, "job": "clerk"}]}`, where null is a
missing value. The answer is `{"predictions": [{"probability": 0.31, "class": false}]}`. Requests
that are too large, or come too slowly, are refused. On SIGTERM the server takes no more connections
and answers what it has been asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyro_gcm import load
from pyro_gcm.estimators.kinds import predictions

#: Rows of a request, at most; with so many a batch takes no more requests.
MOST_ROWS = 1024
#: Bytes of a request, at most, and the seconds in which they have to come.
MOST_BYTES, SECONDS = 1 << 20, 5.0
Row = dict[str, float | str | bool | None]


class Request(BaseModel):
    """Rows to predict, by the names of their columns."""

    rows: list[Row]


@dataclass
class Batches:
    """Requests, of which those that arrived while the last batch was predicted are the next one."""

    model: Any
    waiting: asyncio.Queue[tuple[list[Row], asyncio.Future[list[Any]]]] = field(
        default_factory=asyncio.Queue
    )

    async def answer(self, rows: list[Row]) -> list[Any]:
        """The predictions of the rows of a request."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        await self.waiting.put((rows, future))
        return await future

    async def work(self) -> None:
        """Answer batch after batch, for ever."""
        while True:
            batch = [await self.waiting.get()]
            while not self.waiting.empty() and sum(len(rows) for rows, _ in batch) < MOST_ROWS:
                batch.append(self.waiting.get_nowait())
            try:
                answers = await self._predicted([rows for rows, _ in batch])
            except Exception:  # perhaps of one of them: each alone then
                answers = [await self._alone(rows) for rows, _ in batch]
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():  # whoever asked has gone
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _predicted(self, parts: list[list[Row]]) -> list[Any]:
        whole = [row for rows in parts for row in rows]
        found = iter(await asyncio.to_thread(self.score, whole) if whole else [])
        return [[next(found) for _ in rows] for rows in parts]

    def score(self, rows: list[Row]) -> list[Any]:
        """The predictions of rows, a mapping each."""
        frame = pd.DataFrame(rows, columns=list(self.model.feature_names_in_))
        return pd.DataFrame(predictions(self.model, frame)).to_dict("records")

    async def _alone(self, rows: list[Row]) -> Any:
        try:
            return (await self._predicted([rows]))[0]
        except Exception as error:
            return error


class Limits:
    """Reads a request as a whole before the app does, or refuses it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with 413 if it is too large, 408 if too slow, 400 if it is no text."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, code, why = b"", 0, ""
        try:
            async with asyncio.timeout(SECONDS):
                more = True
                while more and len(body) <= MOST_BYTES:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                code, why = 413, f"a request must have at most {MOST_BYTES} bytes"
            else:
                body.decode()
        except TimeoutError:
            code, why = 408, f"a request must come within {SECONDS:g} seconds"
        except UnicodeDecodeError:
            code, why = 400, "a request must be text in UTF-8"
        if code:
            refusal = JSONResponse({"detail": why}, code, {"connection": "close"})
            await refusal(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, again, send)


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    """Load the model once, and answer until the last request is answered."""
    app.state.batches = Batches(load(os.environ["MODEL"]))
    app.state.read = 0
    worker = asyncio.create_task(app.state.batches.work())
    yield
    worker.cancel()
    print(f"stopped after {app.state.read} requests", flush=True)


app = FastAPI(lifespan=life)
app.add_middleware(Limits)


@app.post("/predict")
async def predict(request: Request) -> dict[str, list[Any]]:
    """The predictions of some rows; 422 with one sentence for rows that cannot be used."""
    app.state.read += 1
    if len(request.rows) > MOST_ROWS:
        raise HTTPException(
            413, f"a request must have at most {MOST_ROWS} rows, got {len(request.rows)}"
        )
    batches: Batches = app.state.batches
    for row in request.rows:
        lacking = [name for name in batches.model.feature_names_in_ if name not in row]
        if lacking:
            raise HTTPException(422, f"a row lacks {lacking}; null is a missing value")
    try:
        return {"predictions": await batches.answer(request.rows)}
    except (TypeError, ValueError) as error:
        raise HTTPException(422, str(error)) from error
