"""Real data sets, loaded once per session, and skipped if the raw files are not available."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyro_gcm import data


@pytest.fixture(scope="session")
def raw_folder() -> Path:
    """The folder of raw files."""
    folder = os.environ.get("PYRO_GCM_DATA")
    if not folder:
        pytest.skip("PYRO_GCM_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def real(raw_folder: Path) -> Callable[..., data.Dataset]:
    """``real(name, variant)``: a data set from the real files."""

    cached = functools.cache(data.load)

    def load(name: str, variant: str = "default") -> data.Dataset:
        try:
            return cached(name, variant)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return load
