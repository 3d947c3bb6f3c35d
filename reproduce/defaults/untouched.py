"""One look at untouched data sets: every method with its defaults, nothing chosen."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pandas as pd

from reproduce.data.untouched_data import UNTOUCHED
from reproduce.methods import ADDITIVE, DEFAULTS, NETWORKS, method_of, rows_of, train, version_of
from reproduce.rendering.markdown import markdown
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores, nan_if_diverged
from reproduce.scores import distribution_scores
from reproduce.study import Study
from reproduce.tasks import load


@nan_if_diverged(lambda f: ["AUC" if load(f.dataset, f.variant).response == "binary" else "RMSE"])
def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on the rows that a split leaves out."""
    dataset = load(fit.dataset, fit.variant)
    learn, test = (part[: fit.options.get("rows")] for part in dataset.split(int(fit.split)))
    given: Any = None, fit.seed
    start = time.perf_counter()
    model, history = train(fit.method, rows_of(dataset, learn), *given, device=device)
    cost = {"seconds": time.perf_counter() - start, "epochs": history.best_epoch if history else 0}
    spread = None
    if dataset.response == "continuous" and not method_of(fit.method).density:
        # That of the errors on a fifth of the training rows, which a fit to the others did not see.
        size = len(learn) * 4 // 5
        seen, unseen = learn[:size], learn[size:]
        again, _ = train(fit.method, rows_of(dataset, seen), *given, device=device)
        error = dataset.y[unseen] - again.predict(dataset.x[unseen], dataset.r[unseen])
        spread = float(error.square().mean().sqrt())
    return {**distribution_scores(dataset, model, test, device, spread), **cost}


def report(table: pd.DataFrame, name: str) -> str:
    """Means of every metric on a data set, and what the revenues are.

    The best mean is in bold; * where the corrected 95 % interval of the paired difference to it
    excludes 0.
    """
    rows, entry = table[table["dataset"] == name], UNTOUCHED[name]
    size = f"{entry.rows:,} rows; covariates: {entry.covariates}; from {entry.package}"
    directions = markdown(["Revenue", "Why y increases in it"], map(list, entry.directions.items()))
    return f"{entry.title} (`{name}`): {size}\n\n{directions}\n\n{compared(rows, family=False)}"


#: Splits of the later data sets.
LATER = 3


def cells(fit: Fit) -> Iterable[Fit]:
    """The later data sets have additive models in place of networks and sampled z."""
    if not UNTOUCHED[fit.dataset].later:
        return [] if fit.method in ADDITIVE else [fit]
    return [] if fit.method in (*NETWORKS, "GCM", "IGCM") or fit.seed >= LATER else [fit]


STUDY = Study(
    *("untouched", str(__doc__), UNTOUCHED, dict.fromkeys(DEFAULTS), run, "9"),
    counted="seeds",
    quick_count=2,
    version=version_of,
    cells=cells,
    quick={"rows": 500},
)
