"""Four public tables of event times, all from scikit-survival; `survival.json` describes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.data.dataset import check_count
from reproduce.runs import read_json

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TimesTable:
    """A table of event times.

    :param directions: a column -> the sign of its effect on the risk, and why. They were written
        down from what the columns mean, before any score was computed; treatments that a trial was
        to compare have none.
    :param ordered: columns whose levels have an order, with the levels in it.
    :param rows: number of rows.
    """

    title: str
    loader: str
    rows: int
    directions: dict[str, tuple[int, str]]
    ordered: dict[str, list[str]]

    @property
    def signs(self) -> dict[str, int]:
        """What `monotonic_cst` takes."""
        return {name: sign for name, (sign, _) in self.directions.items()}


TABLES = {n: TimesTable(**entry) for n, entry in read_json(__file__, "survival.json").items()}


@lru_cache(maxsize=4)
def load(name: str) -> tuple[pd.DataFrame, Array]:
    """A table, and (event, time) of its rows as one structured array.

    :raises ImportError: without scikit-survival.
    :raises ValueError: if the package's table has another number of rows.
    """
    from sksurv import datasets

    entry = TABLES[name]
    read: Callable[[], tuple[pd.DataFrame, Array]] = getattr(datasets, entry.loader)
    X, y = read()
    check_count(name, "rows", len(X), entry.rows)
    for column, levels in entry.ordered.items():
        X[column] = X[column].cat.set_categories(levels, ordered=True)
    return X, np.array(y.tolist(), dtype=[("event", "?"), ("time", "<f8")])
