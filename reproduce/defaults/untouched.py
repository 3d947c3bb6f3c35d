"""One look at untouched data sets: every method with its defaults, nothing chosen."""

from __future__ import annotations

import math
import time

import pandas as pd

from pyro_gcm import data
from pyro_gcm.training import Diverged
from reproduce.data.untouched_data import UNTOUCHED, load
from reproduce.methods import rows_of, spread_of_errors
from reproduce.methods.defaults import DEFAULTS, Default, version_of
from reproduce.rendering.markdown import NOT_RUN, markdown
from reproduce.rendering.tables import every_metric
from reproduce.runs import Fit, Scores
from reproduce.scores import distribution_scores
from reproduce.study import Study, each

#: Rows of --quick, whose outcomes are shuffled.
QUICK_ROWS = 1_000


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    dataset = load(fit.dataset, fit.options.get("shuffled"))
    return held_out(DEFAULTS[fit.method], dataset, fit, device)


def held_out(method: Default, dataset: data.Dataset, fit: Fit, device: str) -> Scores:
    """Scores of one method on the rows that a split leaves out; NaN where it diverged."""
    learn, test = dataset.split(int(fit.split))
    start = time.perf_counter()
    try:
        model, epochs = method.fit(rows_of(dataset, learn), fit.seed, device)
    except Diverged:
        metric = "AUC" if dataset.response == "binary" else "RMSE"
        return {metric: math.nan, "seconds": time.perf_counter() - start, "epochs": 0}
    cost = {"seconds": time.perf_counter() - start, "epochs": epochs}
    spread = None
    if dataset.response == "continuous" and not method.density:
        spread = spread_of_errors(
            dataset, learn, lambda rows: method.fit(rows, fit.seed, device)[0]
        )
    return {**distribution_scores(dataset, [model], test, device, spread), **cost}


def report(table: pd.DataFrame, name: str) -> str:
    """Means of every metric on a data set, and what the revenues are.

    The best mean is in bold; * where the corrected 95 % interval of the paired difference to it
    excludes 0.
    """
    rows = table[table["dataset"] == name]
    if rows.empty:
        return f"{UNTOUCHED[name].title} (`{name}`): {NOT_RUN}."
    entry = UNTOUCHED[name]
    size = f"{entry.rows:,} rows; covariates: {entry.covariates}; from {entry.package}"
    directions = markdown(["Revenue", "Why y increases in it"], map(list, entry.directions.items()))
    return f"{entry.title} (`{name}`): {size}\n\n{directions}\n\n{every_metric(rows)}"


STUDY = Study(
    *("untouched", str(__doc__), dict.fromkeys(UNTOUCHED, ""), DEFAULTS, run),
    each(dict.fromkeys(UNTOUCHED, ""), report),
    counted="seeds",
    quick_count=2,
    settings=version_of,
    quick={"shuffled": QUICK_ROWS},
)
