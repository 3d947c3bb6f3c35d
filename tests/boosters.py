"""The libraries of boosted trees, their names of options, and models with their scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.boosted import Boosted, BoostedScore

#: Each library's name for the number of trees.
TREES = {
    "sklearn": "max_iter",
    "xgboost": "n_estimators",
    "lightgbm": "n_estimators",
    "catboost": "iterations",
}
THREADS = {"xgboost": "n_jobs", "lightgbm": "n_jobs", "catboost": "thread_count"}


def sized(library: str, trees: int) -> dict[str, Any]:
    """Options of so many trees on one thread; the test is skipped without the library."""
    pytest.importorskip(library)
    return {TREES[library]: trees, **({THREADS[library]: 1} if library in THREADS else {})}


def rows(
    count: int = 600, seed: int = 0, response: str = "binary", dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of which trees and a network learn different things."""
    g = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(count, k, generator=g, dtype=dtype) for k in (3, 2))
    noise = torch.randn(count, generator=g, dtype=dtype)
    y = x[:, 0] + x[:, 1] * r[:, 0].tanh() + 2.0 * r[:, 1].tanh() + r[:, 0] + noise
    return x, r, (y > 0.0).to(dtype) if response == "binary" else 5.0 + 10.0 * y


def boosted(
    role: str,
    response: str = "binary",
    library: str = "sklearn",
    dtype: torch.dtype = torch.float32,
    epochs: int = 4,
    **options: Any,
) -> Boosted:
    """A model with the score of 20 trees; without an epoch it has learned the units alone."""
    x, r, y = rows(400, response=response)
    score = BoostedScore(role, library, response=response, **sized(library, 20))
    columns = score.columns(x, r, score.fit(x, r, y))
    options = {"num_samples": 16, "hidden": 8, **options}
    model = GCM(*(part.shape[1] for part in columns), response=response, **options).to(dtype)
    model.learn_units(*columns, y)
    training = {"epochs": epochs, "learning_rate": 0.03, "num_particles": 8}
    if epochs:
        fit(model, *columns, y, progress=False, **training)
    return Boosted(model, score)
