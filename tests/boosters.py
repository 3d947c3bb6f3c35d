"""The libraries of boosted trees, each with its own names of options."""

from __future__ import annotations

from typing import Any

import pytest

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
