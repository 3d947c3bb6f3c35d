"""Shared by the tests of the experiments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reproduce.released import rows as released_rows


@pytest.fixture(autouse=True)
def _no_rows_stay_behind() -> Iterator[None]:
    """Rows that a test makes are not those of the next one."""
    yield
    released_rows.rows_of.cache_clear()
