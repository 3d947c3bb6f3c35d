"""Whether whole weights are counts: fits to weighted rows beside fits to the same rows repeated.

A small table has rows of weight 0 to 4. Models are fitted to it, and to the table in which each row
is as often as its weight says, in a random order, with seeds of their own. Predictions of a new row
are then draws of two distributions, which a Kolmogorov-Smirnov test compares. The same weights
divided by their mean are relative: each row is there once, and the tests have to find that.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import ks_2samp

from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor, GCMSurvival
from pyro_gcm.estimators.kinds import monotone_prediction
from reproduce.intervals import holm
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

Array = npt.NDArray[np.float64]
#: Weights of the rows of the table, and new rows that are predicted.
WEIGHTS, POINTS = np.array([0, 1, 2, 3, 4, 1, 2, 0, 1, 3, 2, 1]), 4
ESTIMATORS: dict[str, Any] = {
    made.__name__: made for made in (GCMClassifier, GCMRegressor, GCMOrdinal, GCMSurvival)
}
WAYS = ("counts", "relative")
#: Name -> options of the training: epochs and batches from the size of the table, or given ones.
TRAININGS: dict[str, dict[str, Any]] = {
    "no early stopping": {"early_stopping": False},
    "early stopping, batches of 8": {"early_stopping": True, "batch_size": 8, "epochs": 1},
}


def table() -> tuple[Array, Array, Array]:
    """Rows of X [n, 2], a score of each that rises with X on the whole [n], and new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(WEIGHTS), 2))
    return X, X.sum(1) + 0.5 * rng.normal(size=len(X)), rng.normal(size=(POINTS, 2))


def outcome(estimator: str, score: Array) -> Any:
    """y of rows, as this estimator has it, from their scores [n]."""
    if estimator == "GCMClassifier":
        return score > 0.0
    if estimator == "GCMOrdinal":
        return np.digitize(score, [-0.5, 0.5])
    return score if estimator == "GCMRegressor" else np.stack([score < 0.5, np.exp(-score)], 1)


def predicted(estimator: str, training: str, seed: int, weight: Array | None) -> Array:
    """Predictions of the new rows by one fit, [P].

    :param weight: of the rows; without it the rows are repeated, in an order of this seed.
    """
    X, score, new = table()
    if weight is None:
        index = np.random.default_rng(seed).permutation(np.arange(len(X)).repeat(WEIGHTS))
        X, score = X[index], score[index]
    options = {"members": 4, "hidden": 4, "monotonic_cst": [1, 0], "random_state": seed}
    model = ESTIMATORS[estimator](**options, **TRAININGS[training])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few rows, and of a short training
        model.fit(X, outcome(estimator, score), sample_weight=weight)
    return monotone_prediction(model, new)


def run(fit: Fit, device: str = "cpu") -> Scores:
    """The p-value of each new row and way, from as many fits of each as there are seeds."""
    started, seeds = time.perf_counter(), fit.options["seeds"]
    weights = dict(zip(WAYS, (WEIGHTS.astype(float), WEIGHTS / WEIGHTS.mean()), strict=True))
    draws = []
    for number, weight in enumerate((None, *weights.values())):
        own = range(number * seeds, (number + 1) * seeds)
        draws.append(
            np.stack([predicted(fit.dataset, fit.method, seed, weight) for seed in own], 1)
        )
    found: Scores = {
        f"p, {way}, row {at}": float(ks_2samp(draws[0][at], of_way[at]).pvalue)
        for way, of_way in zip(WAYS, draws[1:], strict=True)
        for at in range(POINTS)
    }
    return {**found, "seconds": time.perf_counter() - started, "epochs": 0}


def report(rows: pd.DataFrame) -> str:
    """The smallest p-value of each estimator and training, corrected for all of its way."""
    rows = rows[rows["metric"].str.startswith("p, ")].copy()
    rows["way"] = rows["metric"].str.split(", ").str[1]
    for _, of_way in rows.groupby("way"):
        rows.loc[of_way.index, "corrected"] = pd.Series(holm(of_way["value"].to_dict()))
    least = rows.pivot_table("corrected", ["dataset", "method"], "way", aggfunc="min", sort=False)
    found = least.reset_index()[["dataset", "method", *WAYS]].to_numpy()
    lines = [[*map(str, line[:2]), *(f"{p:.2g}" for p in line[2:])] for line in found]
    count = int((rows["way"] == WAYS[0]).sum())
    least_raw = rows.loc[rows["way"] == WAYS[0], "value"].min()
    told = f"The smallest of the {count} uncorrected p-values of counts is {least_raw:.2g}."
    return f"{markdown(['Estimator', 'Training', *WAYS], lines)}\n\n{told}"


STUDY = Study(
    *("row_weights", str(__doc__), dict.fromkeys(ESTIMATORS, ""), TRAININGS, run, report),
    count=1,
    counted="repeats",
    protocol="simulated",
    settings=lambda training: {"seeds": 200},
    quick={"seeds": 3},
)
