"""How methods for an ordered y are run on random splits, and the tables of their scores."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from reproduce.data.ordered_data import SIMULATED, Table, split
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores
from reproduce.study import Study

#: Name -> function (training rows, seed) -> prediction of other rows.
Methods = Mapping[str, Callable[[Table, int], Callable[[Table], Any]]]
#: Name of a table -> its metrics, in this order.
COLUMNS = {
    "levels": "log score, RPS, error of the median, quadratic kappa, mean |P - P0|, crossings",
    "distributions": "log score, CRPS, mean |F - F0|, coverage 50%, coverage 80%, coverage 95%",
    "widths": "width 50%, width 80%, width 95%, crossings, seconds of a fit",
    "ends": "coverage, width, interval score, seconds of a fit",
}


def study(
    name: str,
    about: str | None,
    datasets: Iterable[str],
    methods: Methods,
    scores: Callable[[Any, Table, Table], Scores],
    page: str,
    levels: int = 0,
) -> Study:
    """A study whose scores are of (prediction of test rows, training rows, test rows).

    :param levels: of simulated tables; 0 where y is a number.
    """

    def run(fit: Fit, device: str = "cpu") -> Scores:
        learn, test = split(fit.dataset, int(fit.split), levels, fit.options.get("rows"))
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict = methods[fit.method](learn, fit.seed)
            spent = time.process_time() - start
            scored = scores(predict(test), learn, test)
        return {**scored, "seconds of a fit": spent, "seconds": spent, "epochs": 0}

    return Study(*(name, str(about), datasets, methods, run, page), quick={"rows": 150})


def boosters(make: Callable[..., Any], learn: Table, seed: int, trees: Iterable[int]) -> list[Any]:
    """Boosters of scikit-learn with the directions of a table, one for each number of trees."""
    options: Any = {"monotonic_cst": learn.directions, "random_state": seed}
    return [make(max_iter=count, early_stopping=False, **options) for count in trees]


def report(table: pd.DataFrame, name: str, columns: str) -> str:
    """Metrics of one data set, as `COLUMNS` has them."""
    from reproduce.studies import STUDIES  # which have those of this file

    rows = table[table["dataset"] == name]
    study: Any = STUDIES[rows["experiment"].iloc[0]]
    return compared(
        rows, study.methods, COLUMNS[columns].split(", "), independent=name == SIMULATED
    )
