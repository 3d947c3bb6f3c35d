"""Ordered levels: GCM beside proportional odds, neural cumulative links and monotone boosting.

Ten random 4:1 splits of public sets, and ten simulated ones whose probabilities are known.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from reproduce.data.ordered_data import ORDINAL, SIMULATED, Array, Table, split
from reproduce.methods.ordinal import METHODS
from reproduce.rendering.markdown import NOT_RUN
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores
from reproduce.study import Study, each

#: Levels of the simulated tables, and rows of --quick.
LEVELS, QUICK_ROWS = 5, 150
#: The smallest probability of a level, of all methods.
FLOOR = 1e-4
#: The metrics of a table, in this order.
METRICS = (
    *("log score", "RPS", "error of the median", "quadratic kappa", "mean |P - P0|"),
    "crossings",
)


def scores(probability: Array, test: Table) -> Scores:
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


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    learn, test = split(fit.dataset, int(fit.split), LEVELS, fit.options.get("rows"))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict = METHODS[fit.method](learn, fit.seed)
        spent = time.process_time() - start
        return {**scores(predict(test), test), "seconds": spent, "epochs": 0}


def report(table: pd.DataFrame, name: str) -> str:
    """Every metric of one data set."""
    rows = table[table["dataset"] == name]
    if rows.empty:
        return f"{NOT_RUN.capitalize()}."
    return compared(rows, list(METHODS), METRICS, independent=name == SIMULATED)


TITLES = {name: entry[0] for name, entry in ORDINAL.items()} | {SIMULATED: "Simulated"}
STUDY = Study(
    *("ordinal", str(__doc__), TITLES, METHODS, run, each(TITLES, report)),
    quick={"rows": QUICK_ROWS},
)
