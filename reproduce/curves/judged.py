"""How methods for an ordered y are run on random splits, and the tables of their scores."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reproduce.data.ordered_data import SIMULATED, Array, Table, split
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores

#: Name -> function (training rows, seed) -> prediction of other rows.
Methods = Mapping[str, Callable[[Table, int], Callable[[Table], Any]]]


def runner(
    methods: Methods, scores: Callable[[Any, Table, Table], Scores], levels: int = 0
) -> Callable[..., Scores]:
    """The `run` of a study: scores of (prediction of test rows, training rows, test rows).

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

    return run


def trees_by_folds(
    make: Callable[[int], Any],
    x: Array,
    y: Array,
    folds: Iterable[tuple[Array, Array]],
    trees: Sequence[int],
) -> Array:
    """Predictions [trees, n] of rows by boosters that did not see them, for numbers of trees.

    :param make: number of trees -> a booster of scikit-learn, of events if y is 0 or 1.
    """
    stages = np.zeros((len(trees), len(y)))
    for seen, unseen in folds:
        model = make(trees[-1]).fit(x[seen], y[seen])
        probable = hasattr(model, "predict_proba")
        every = (model.staged_predict_proba if probable else model.staged_predict)(x[unseen])
        for number, prediction in enumerate(every, 1):
            if number in trees:
                stages[trees.index(number), unseen] = prediction[:, 1] if probable else prediction
    return stages


def report(table: pd.DataFrame, name: str, methods: Methods, metrics: Sequence[str]) -> str:
    """Metrics of one data set."""
    rows = table[table["dataset"] == name]
    return compared(rows, methods, metrics, independent=name == SIMULATED)
