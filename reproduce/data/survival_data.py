"""Four public tables of event times, all from scikit-survival, and what medicine says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

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
    directions: dict[str, tuple[int, str]]
    ordered: dict[str, list[str]]
    rows: int

    @property
    def signs(self) -> dict[str, int]:
        """What `monotonic_cst` takes."""
        return {name: sign for name, (sign, _) in self.directions.items()}


TABLES = {
    "gbsg2": TimesTable(
        "GBSG2, recurrence of breast cancer",
        "load_gbsg2",
        {
            "pnodes": (1, "more positive lymph nodes: the cancer has spread further"),
            "tgrade": (1, "a higher grade: cells that grow and spread faster"),
            "tsize": (1, "a larger tumour is a later stage"),
            "progrec": (-1, "progesterone receptors: a tumour that answers to hormones"),
        },
        {"tgrade": ["I", "II", "III"]},
        686,
    ),
    "whas500": TimesTable(
        "WHAS500, death after a heart attack",
        "load_whas500",
        {
            "age": (1, "mortality rises with age"),
            "chf": (1, "congestive heart complications: a heart that fails"),
            "sho": (1, "cardiogenic shock"),
        },
        {"chf": ["0", "1"], "sho": ["0", "1"]},
        500,
    ),
    "veteran": TimesTable(
        "Veterans, death from lung cancer",
        "load_veterans_lung_cancer",
        {"Karnofsky_score": (-1, "a patient who can do more for himself is less ill")},
        {},
        137,
    ),
    "aids": TimesTable(
        "ACTG 320, AIDS or death",
        "load_aids",
        {
            "cd4": (-1, "more CD4 cells: an immune system that still works"),
            "karnof": (-1, "a patient who can do more for himself is less ill"),
        },
        {"karnof": ["70", "80", "90", "100"]},
        1151,
    ),
}


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
    if len(X) != entry.rows:
        raise ValueError(f"{name} must have {entry.rows} rows, got {len(X)}")
    for column, levels in entry.ordered.items():
        X[column] = X[column].cat.set_categories(levels, ordered=True)
    event, time = y.dtype.names or ()
    return X, np.array(
        list(zip(y[event], y[time], strict=True)), dtype=[("event", "?"), ("time", "<f8")]
    )
