"""Four credit tables with directions: HELOC, Taiwan, the stand-in of LendingClub loans and COMPAS.

Held-out rows are those of random 4:1 splits; invented rows have values that no applicant has
together.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm import data
from pyro_gcm.data.credit import HELOC_DIRECTIONS, LOAN_DIRECTIONS, TAIWAN_DIRECTIONS
from reproduce.runs import Refused

Array = npt.NDArray[np.float64]
Directions = Mapping[str, int]


def _heloc() -> tuple[pd.DataFrame, pd.Series]:
    for path in Path(os.environ.get("PYRO_GCM_DATA", ""), "credit").glob("heloc.csv*"):
        return data.load_heloc(path)
    raise Refused("data set heloc: PYRO_GCM_DATA must name a folder with credit/heloc.csv")


def _loans() -> tuple[pd.DataFrame, pd.Series]:
    table, outcome = data.load_loans()
    return table, (outcome == "default").astype(int)


def _compas() -> tuple[pd.DataFrame, pd.Series]:
    table = data.load("compas").frame()
    return table, table.pop("y").astype(int)


@dataclass(frozen=True)
class CreditTable:
    """A table, whether the event occurred (0 or 1), and the directions of columns by name."""

    title: str
    load: Callable[[], tuple[pd.DataFrame, pd.Series]]
    directions: Directions


_PRIORS = ("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
TABLES = {
    "heloc": CreditTable("HELOC", _heloc, HELOC_DIRECTIONS),
    "taiwan": CreditTable("Taiwan", data.load_taiwan, TAIWAN_DIRECTIONS),
    "loan_psds": CreditTable("Loans (stand-in)", _loans, LOAN_DIRECTIONS),
    "compas": CreditTable("COMPAS", _compas, dict.fromkeys(_PRIORS, 1)),
}
TITLES = {name: entry.title for name, entry in TABLES.items()}


@functools.cache
def load(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """A table, read once for several fits of a process."""
    return TABLES[name].load()


@dataclass(frozen=True)
class Split:
    """Training and test rows; y is 0 or 1."""

    X: pd.DataFrame
    y: Array
    X_test: pd.DataFrame
    y_test: Array


def split(name: str, seed: int, rows: int | None = None) -> Split:
    """A random 4:1 split, the same for every method.

    :param rows: so many random rows in place of all.
    """
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(X))[:rows]
    test, learn = np.split(order, [len(order) // 5])
    outcome = y.to_numpy(np.float64)
    parts = (X.iloc[at].reset_index(drop=True) for at in (learn, test))
    learn_X, test_X = parts
    return Split(learn_X, outcome[learn], test_X, outcome[test])


def invented(X: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    """Rows that are in no table: values of every column are drawn without regard to the others.

    Numbers are uniform between the 1st and the 99th percentile, to three digits, or whole numbers
    where the column has those alone; categories are any level with equal probability.
    """
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for name in X:
        column = X[name]
        if not pd.api.types.is_numeric_dtype(column):
            levels = column.cat.categories
            made[str(name)] = pd.Categorical(rng.choice(levels, count), categories=levels)
            continue
        known = column.dropna()
        low, high = known.quantile([0.01, 0.99])
        values = rng.uniform(low, high if high > low else known.max(), count)
        digits = 0 if (known == known.round()).all() else 3
        made[str(name)] = np.array([float(f"{v:.3g}") for v in values]).round(digits)
    return pd.DataFrame(made)


def with_gaps(X: pd.DataFrame, columns: Directions, seed: int) -> pd.DataFrame:
    """The rows with a fifth of the values of these columns missing, beside those that lack."""
    rng, found = np.random.default_rng(seed), X.copy()
    for name in columns:
        found[name] = found[name].astype("float64").mask(rng.random(len(X)) < 0.2)
    return found


def with_unseen_levels(X: pd.DataFrame) -> pd.DataFrame:
    """The rows with a level that no training row has in every category."""
    found = X.copy()
    for name in X.select_dtypes("category"):
        levels = [*X[name].cat.categories, "never seen"]
        found[name] = pd.Categorical(["never seen"] * len(X), categories=levels)
    return found
