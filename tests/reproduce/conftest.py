"""Shared by the tests of the experiments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reproduce import released_rows
from reproduce.results import RESULTS
from reproduce.stored_results import Results, read


@pytest.fixture(scope="session")
def results() -> Results:
    """The committed results."""
    return read(RESULTS)


@pytest.fixture(autouse=True)
def _no_rows_stay_behind() -> Iterator[None]:
    """Rows that a test makes are not those of the next one."""
    released_rows.rows_of.cache_clear()
    yield
    released_rows.rows_of.cache_clear()
