"""Public tables with ordered levels or a number as y, and simulated ones whose truth is known.

`ordered.json` says what those are that packages of tables bring. Directions were written down from
what the columns mean, before any score was computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import lognorm

from pyro_gcm import data
from reproduce.data.untouched_data import described

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


DESCRIBED = described("ordered.json")
#: Decisions of people on ordered criteria, all of which speak for a higher level.
_DECISIONS = ("esl", "lev", "swd")
ORDINAL = [*_DECISIONS, *(name for name, entry in DESCRIBED.items() if entry.levels)]
REAL = ["auto_mpg", *(name for name, entry in DESCRIBED.items() if not entry.levels)]
SIMULATED = "simulated"
#: Rows of a simulated table: to learn from and to be judged on.
_SIZES = 1000, 1000


@lru_cache(maxsize=2)
def _table(name: str) -> Table:
    if name in _DECISIONS:
        found = getattr(import_module("skordinal.datasets"), f"load_{name}")()
        y = np.asarray(found.target, float)
        return Table(
            np.empty((len(y), 0)), np.asarray(found.data, float), y, len(found.target_names)
        )
    dataset = DESCRIBED[name].read(name) if name in DESCRIBED else data.load(name)
    x, r, y = (part.numpy() for part in (dataset.x, dataset.r, dataset.y))
    return Table(x, r, y, DESCRIBED[name].levels if name in DESCRIBED else 0)


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
