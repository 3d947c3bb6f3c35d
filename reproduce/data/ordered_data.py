"""Public tables with ordered levels or a number as y, and simulated ones whose truth is known.

Directions were written down from what the columns mean, before any score was computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit
from scipy.stats import lognorm
from sklearn.datasets import load_diabetes

from pyro_gcm import data
from reproduce.data.untouched_data import of_r, of_statsmodels

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Numeric columns, those in which y rises apart.

    :param x: free columns [n, d], d may be 0; `r`: [n, m], in which y rises; `y`: [n], a number, or
        a level from 0.
    :param levels: number L of levels; 0 where y is a number.
    :param truth: where it is known, Pr(y <= t) of every row at thresholds [T], [n, T].
    """

    x: Array
    r: Array
    y: Array
    levels: int = 0
    truth: Callable[[Array], Array] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def columns(self) -> Array:
        """x and r, [n, d + m]."""
        return np.hstack([self.x, self.r])

    @property
    def directions(self) -> list[int]:
        """0 for a free column, and 1 for one in which y rises."""
        return [0] * self.x.shape[1] + [1] * self.r.shape[1]


def _read(
    frame: pd.DataFrame, free: list[str], rising: dict[str, int], y: str, levels: int = 0
) -> Table:
    """Free columns, categories one-hot, and the constrained ones with their sign."""
    x = pd.get_dummies(frame[free], dtype=float) if free else frame[free]
    r = np.stack([sign * frame[name].to_numpy(float) for name, sign in rising.items()], 1)
    return Table(x.to_numpy(float), r, frame[y].to_numpy(float), levels)


def _ben_david(name: str) -> Table:
    """Decisions of people on ordered criteria, all of which speak for a higher level."""
    found = getattr(import_module("skordinal.datasets"), f"load_{name}")()
    r, y = np.asarray(found.data, float), np.asarray(found.target, float)
    return Table(np.empty((len(y), 0)), r, y, len(found.target_names))


def _marriages() -> Table:
    """How 6,366 women rate their marriage, very poor to very good (Fair, 1978)."""
    frame = of_statsmodels("fair").astype({"occupation": str, "occupation_husb": str})
    frame["level"] = frame["rate_marriage"] - 1.0
    free = ["age", "yrs_married", "children", "educ", "occupation", "occupation_husb"]
    return _read(frame, free, {"affairs": -1, "religious": 1}, "level", 5)


def _parties() -> Table:
    """Party of 944 voters, strong Democrat to strong Republican (American election study, 1996)."""
    free = ["popul", "TVnews", "age", "educ", "income"]
    return _read(of_statsmodels("anes96"), free, {"selfLR": 1}, "PID", 7)


def _cars() -> Table:
    """Miles per gallon of 392 cars."""
    cars = data.load("auto_mpg")
    x, r, y = (part.double().numpy() for part in (cars.x, cars.r, cars.y))
    return Table(x, r, y)


def _diabetes() -> Table:
    """Progress of the disease of 442 patients in a year (Efron et al., 2004)."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    free = ["age", "sex", "s1", "s2", "s3", "s4", "s6"]
    return _read(frame, free, {"bmi": 1, "bp": 1, "s5": 1}, "target")


def _wages() -> Table:
    """Wages of 3,000 men in the mid-Atlantic region (James et al., 2013)."""
    frame = of_r("ISLR", "Wage")
    for name in ("education", "health", "health_ins"):  # "1. < HS Grad", ...
        frame[name] = frame[name].str.slice(0, 1).astype(int)
    rising = {"education": 1, "health": 1, "health_ins": -1, "year": 1}
    return _read(frame, ["age", "maritl", "race", "jobclass"], rising, "wage")


def _engel() -> Table:
    """What 235 households of Belgium spent on food (Engel, 1857)."""
    return _read(of_statsmodels("engel"), [], {"income": 1}, "foodexp")


def simulated(levels: int, rows: int, seed: int) -> Table:
    """Skewed y that rises with two columns, with a spread that they and x move as well.

    y is log-normal; its levels are cut where a fifth of a large sample lies in each.
    """
    rng = np.random.default_rng(seed)
    x, r = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 2))
    middle = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] + expit(3.0 * r[:, 0]) * 2.0 + 0.4 * r[:, 1]
    spread = 0.35 + 0.4 * expit(2.0 * x[:, 2])
    law = lognorm(spread[:, None], scale=np.exp(0.5 * middle)[:, None])
    y = law.rvs(size=(rows, 1), random_state=rng)[:, 0]
    if not levels:
        return Table(x, r, y, truth=law.cdf)
    cuts = np.array([0.9, 1.35, 1.95, 2.9])[: levels - 1]
    table_y = (y[:, None] > cuts).sum(1).astype(float)
    return Table(x, r, table_y, levels, lambda t: law.cdf(cuts[np.asarray(t, int)]))


#: Name -> title and reader.
ORDINAL: dict[str, tuple[str, Callable[[], Table]]] = {
    "esl": ("Employee selection", partial(_ben_david, "esl")),
    "lev": ("Lecturers", partial(_ben_david, "lev")),
    "swd": ("Social workers", partial(_ben_david, "swd")),
    "anes96": ("Parties", _parties),
    "fair": ("Marriages", _marriages),
}
REAL: dict[str, tuple[str, Callable[[], Table]]] = {
    "auto_mpg": ("Auto MPG", _cars),
    "diabetes": ("Diabetes progress", _diabetes),
    "engel": ("Food expenditure", _engel),
    "wage": ("Wages", _wages),
}
SIMULATED = "simulated"
#: Rows of a simulated table: to learn from and to be judged on.
_SIZES = 1000, 1000


@lru_cache(maxsize=2)
def _table(name: str) -> Table:
    return {**ORDINAL, **REAL}[name][1]()


def split(name: str, seed: int, levels: int, rows: int | None = None) -> tuple[Table, Table]:
    """Training and test rows: a random 4:1 split, or two simulated tables.

    :param rows: that many of the rows alone.
    """
    if name == SIMULATED:
        sizes = _SIZES if rows is None else (rows, rows)
        return simulated(levels, sizes[0], 2 * seed), simulated(levels, sizes[1], 2 * seed + 1)
    table = _table(name)
    order = np.random.default_rng(seed).permutation(len(table))[:rows]
    test, learn = np.split(order, [len(order) // 5])
    parts = [Table(table.x[i], table.r[i], table.y[i], table.levels) for i in (learn, test)]
    return parts[0], parts[1]
