"""Ordered levels: GCM beside proportional odds, neural cumulative links and monotone boosting.

Ten random 4:1 splits of public sets, and ten simulated ones whose probabilities are known.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from reproduce.curves import judged
from reproduce.data.ordered_data import ORDINAL, SIMULATED, Array, Table
from reproduce.methods.ordinal import METHODS
from reproduce.runs import Scores
from reproduce.study import Study

#: Levels of the simulated tables, and rows of --quick.
LEVELS, QUICK_ROWS = 5, 150
#: The smallest probability of a level, of all methods.
FLOOR = 1e-4
#: The metrics of a table, in this order.
METRICS = (
    *("log score", "RPS", "error of the median", "quadratic kappa", "mean |P - P0|"),
    "crossings",
)


def scores(probability: Array, learn: Table, test: Table) -> Scores:
    """Scores of probabilities [n, L] of levels, of which some may be negative by crossings.

    Where cumulative probabilities cross, they are sorted before they are scored.
    """
    crossing = float((probability < -1e-12).any(1).mean())
    edges = np.hstack([np.zeros((len(test), 1)), np.sort(probability.cumsum(1), axis=1)])
    p = np.clip(np.diff(edges), FLOOR, None)
    p = p / p.sum(1, keepdims=True)
    y, below = test.y.astype(int), p.cumsum(1)[:, :-1]
    steps = np.arange(test.levels - 1.0)
    median = (below < 0.5).sum(1)
    found = {
        "log score": float(np.log(p[np.arange(len(y)), y]).mean()),
        "RPS": float(np.square(below - (y[:, None] <= steps)).sum(1).mean()),
        "error of the median": float(np.abs(median - y).mean()),
        "quadratic kappa": float(cohen_kappa_score(y, median, weights="quadratic")),
        "crossings": crossing,
    }
    if test.truth is not None:
        edges = np.hstack([0.0 * p[:, :1], test.truth(steps), 0.0 * p[:, :1] + 1.0])
        found["mean |P - P0|"] = float(np.abs(p - np.diff(edges)).mean())
    return found


def report(table: pd.DataFrame, name: str) -> str:
    """Every metric of one data set."""
    return judged.report(table, name, METHODS, METRICS)


STUDY = Study(
    *(
        "ordinal",
        str(__doc__),
        [*ORDINAL, SIMULATED],
        METHODS,
        judged.runner(METHODS, scores, LEVELS),
        "12",
    ),
    quick={"rows": QUICK_ROWS},
)
