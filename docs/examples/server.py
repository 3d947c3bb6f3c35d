"""A saved estimator behind HTTP: rows that wait at the same time are predicted in one call.

    MODEL=loans uvicorn --app-dir docs/examples server:app

A request is `POST /predict` with `{"rows": [{"debt": 9.5, "job": "clerk"}]}`, where null is a
missing value. The answer is `{"predictions": [{"probability": 0.31, "class": false}]}`. On SIGTERM
the server takes no more connections and answers what it has been asked.
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
from pydantic import BaseModel

from pyro_gcm import load
from pyro_gcm.estimators import Scorer

#: With so many rows a batch takes no more requests.
MOST_ROWS = 1024
Row = dict[str, float | str | bool | None]


class Request(BaseModel):
    """Rows to predict, by the names of their columns."""

    rows: list[Row]


@dataclass
class Batches:
    """Requests, of which those that came while the last batch was predicted are the next one."""

    score: Scorer
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
        frame = pd.DataFrame([row for rows in parts for row in rows], columns=self.score.names)
        found = iter((await asyncio.to_thread(self.score, frame)).to_dict("records"))
        return [[next(found) for _ in rows] for rows in parts]

    async def _alone(self, rows: list[Row]) -> Any:
        try:
            return (await self._predicted([rows]))[0]
        except Exception as error:
            return error


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    """Load the model once, and answer until the last request is answered."""
    app.state.batches = Batches(load(os.environ["MODEL"]).scorer())
    app.state.read = 0
    worker = asyncio.create_task(app.state.batches.work())
    yield
    worker.cancel()
    print(f"stopped after {app.state.read} requests", flush=True)


app = FastAPI(lifespan=life)


@app.post("/predict")
async def predict(request: Request) -> dict[str, list[Any]]:
    """The predictions of some rows; 422 with one sentence for rows that cannot be used."""
    app.state.read += 1
    batches: Batches = app.state.batches
    for row in request.rows:
        lacking = [name for name in batches.score.names if name not in row]
        if lacking:
            raise HTTPException(422, f"a row lacks {lacking}; null is a missing value")
    try:
        return {"predictions": await batches.answer(request.rows)}
    except (TypeError, ValueError) as error:
        raise HTTPException(422, str(error)) from error
