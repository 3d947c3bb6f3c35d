"""One look at untouched data sets: every method with its defaults, nothing chosen."""

from __future__ import annotations

import time
from collections.abc import Callable

import pandas as pd

from pyro_gcm import FitResult, data
from reproduce.data.untouched_data import UNTOUCHED
from reproduce.methods import DEFAULTS, METHODS, Predictor, Rows, rows_of, train, version_of
from reproduce.rendering.markdown import markdown
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores, nan_if_diverged
from reproduce.scores import distribution_scores
from reproduce.study import Study
from reproduce.tasks import load


@nan_if_diverged(lambda f: ["AUC" if load(f.dataset, f.variant).response == "binary" else "RMSE"])
def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    return held_out(load(fit.dataset, fit.variant), fit, device)


def held_out(
    dataset: data.Dataset, fit: Fit, device: str, own: Callable[[Rows], Predictor] | None = None
) -> Scores:
    """Scores of one method on the rows that a split leaves out.

    :param own: a method that is not in the table of methods, as its training.
    """

    def trained(rows: Rows) -> tuple[Predictor, FitResult | None]:
        if own is not None:
            return own(rows), None
        return train(fit.method, rows, None, fit.seed, device=device)

    learn, test = (part[: fit.options.get("rows")] for part in dataset.split(int(fit.split)))
    start = time.perf_counter()
    model, history = trained(rows_of(dataset, learn))
    cost = {"seconds": time.perf_counter() - start, "epochs": history.best_epoch if history else 0}
    spread = None
    if dataset.response == "continuous" and (own or not METHODS[fit.method].density):
        # That of the errors on a fifth of the training rows, which a fit to the others did not see.
        size = len(learn) * 4 // 5
        seen, unseen = learn[:size], learn[size:]
        again, _ = trained(rows_of(dataset, seen))
        error = dataset.y[unseen] - again.predict(dataset.x[unseen], dataset.r[unseen])
        spread = float(error.square().mean().sqrt())
    return {**distribution_scores(dataset, [model], test, device, spread), **cost}


def report(table: pd.DataFrame, name: str) -> str:
    """Means of every metric on a data set, and what the revenues are.

    The best mean is in bold; * where the corrected 95 % interval of the paired difference to it
    excludes 0.
    """
    rows, entry = table[table["dataset"] == name], UNTOUCHED[name]
    size = f"{entry.rows:,} rows; covariates: {entry.covariates}; from {entry.package}"
    directions = markdown(["Revenue", "Why y increases in it"], map(list, entry.directions.items()))
    return f"{entry.title} (`{name}`): {size}\n\n{directions}\n\n{compared(rows, family=False)}"


STUDY = Study(
    *("untouched", str(__doc__), UNTOUCHED, dict.fromkeys(DEFAULTS), run, "9"),
    counted="seeds",
    quick_count=2,
    version=version_of,
    quick={"rows": 500},
)
