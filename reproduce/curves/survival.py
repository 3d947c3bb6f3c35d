"""Survival: `GCMSurvival` beside Cox, forests, boosting and Kaplan-Meier on four public tables.

Repeated 5-fold splits. scikit-survival brings the rivals, the tables and most scores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyro_gcm.estimators import GCMSurvival
from reproduce.curves.survival_scores import brier_times, log_edges, survival_scores
from reproduce.data.survival_data import TABLES, load
from reproduce.intervals import gaps, samples, stars
from reproduce.rendering.markdown import markdown, shown
from reproduce.rendering.tables import ranked
from reproduce.runs import Fit, Scores, Settings
from reproduce.study import Study

Array = npt.NDArray[Any]
#: Members, which are compared with members that have no directions.
OURS, FREE = "GCM members", "GCM members, no directions"
HEADINGS = {name: entry.title.split(",")[0] for name, entry in TABLES.items()}
#: (risk, times -> Pr(T > t) [n, T]) of test rows.
Predicted = tuple[Array, Callable[[Array], Array]]


#: Rivals of scikit-survival -> module, class and options: for Cox's model a ridge, which the rare
#: levels of a table need, for the forest the sizes of leaves of the guide, for boosting defaults.
RIVALS: dict[str, tuple[str, str, Settings]] = {
    "Cox": ("linear_model", "CoxPHSurvivalAnalysis", {"alpha": 0.1}),
    "Random survival forest": (
        *("ensemble", "RandomSurvivalForest"),
        {"n_estimators": 200, "min_samples_split": 10, "min_samples_leaf": 15, "n_jobs": 1},
    ),
    "Gradient boosting": ("ensemble", "GradientBoostingSurvivalAnalysis", {}),
}
ONE_CURVE = "Kaplan-Meier"
METHODS = (OURS, FREE, *RIVALS, ONE_CURVE)


def predicted(fit: Fit, learn: Any, y: Array, test: Any, device: str) -> Predicted:
    """What the method of a fit predicts: members have their defaults and directions, or none."""
    if fit.method == ONE_CURVE:
        from sksurv.nonparametric import kaplan_meier_estimator

        at, survival = kaplan_meier_estimator(y["event"], y["time"])
        return np.zeros(len(test)), _steps(at, np.tile(survival, (len(test), 1)))
    if fit.method not in RIVALS:
        signs = TABLES[fit.dataset].signs if fit.method == OURS else None
        ours = GCMSurvival(monotonic_cst=signs, random_state=fit.seed, device=device).fit(learn, y)
        curves = partial(ours.predict_survival_function, test, True)
        return ours.predict(test), lambda times: curves(times=times)
    module, name, options = RIVALS[fit.method]
    if fit.method != "Cox":
        options = {**options, "random_state": fit.seed}
    model = getattr(import_module(f"sksurv.{module}"), name)(**options)
    # On scaled numbers and indicators of the levels.
    both = pd.get_dummies(pd.concat([learn, test]), drop_first=True).astype(float)
    fitted = make_pipeline(StandardScaler(), model).fit(both[: len(learn)].to_numpy(), y)
    rows = both[len(learn) :].to_numpy()
    steps = _steps(
        fitted[-1].unique_times_, fitted.predict_survival_function(rows, return_array=True)
    )
    return fitted.predict(rows), steps


def _steps(at: Array, survival: Array) -> Callable[[Array], Array]:
    """Step functions that jump at times: 1 before the first, and constant after the last."""
    with_start = np.hstack([np.ones((len(survival), 1)), survival])
    return lambda times: with_start[:, np.searchsorted(at, times, side="right")]


FOLDS = 5
#: Metrics, and whether lower is better.
METRICS = {
    "integrated Brier score": True,
    "log score": False,
    "Harrell's C": False,
    "Uno's C": False,
    "time-dependent AUC": False,
    "calibration error": True,
}


def parts(name: str, split: str) -> tuple[Array, Array]:
    """Training and test rows of a split "repeat.fold", with equal shares of events."""
    repeat, fold = map(int, split.split("."))
    X, y = load(name)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(X, y["event"])
    learn, test = list(folds)[fold]
    return learn, test


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    X, y = load(fit.dataset)
    if "shuffled" in fit.options:
        y = y[np.random.default_rng(0).permutation(len(y))]
    learn, test = parts(fit.dataset, fit.split)
    risk, curves = predicted(fit, X.iloc[learn], y[learn], X.iloc[test], device)
    times = brier_times(y)
    at_times, at_edges = curves(times), curves(log_edges(y[learn]))
    return survival_scores(y[learn], y[test], risk, at_times, times, at_edges)


def report(table: pd.DataFrame, metric: str) -> str:
    """Mean of a metric of every method and table, the best in bold.

    * where the paired difference to the best is not 0: the test is that of repeated splits,
    corrected for the rows that they share, with Holm's correction over the methods of a table.
    """
    rows = table[(table["metric"] == metric) & (table["method"] != FREE)]
    values, lower = samples(rows, ["method", "dataset"]), dict.fromkeys(HEADINGS, METRICS[metric])
    columns = {name: title for name, title in HEADINGS.items() if name in {n for _, n in values}}
    return ranked(values, columns, lower, METHODS, family=True)


def level_with_first(table: pd.DataFrame, metric: str, method: str) -> str:
    """On how many tables a method is first, or not told from the first."""
    lines = report(table, metric).splitlines()
    cells = {line.split(" | ")[0]: line.split(" | ")[1:] for line in lines}[f"| {method}"]
    level = sum("*" not in cell.replace("**", "") for cell in cells)
    return f"{level} of {len(cells)}"


def worth(table: pd.DataFrame) -> str:
    """What directions gain: members with them minus members without, positive where better.

    Paired, with corrected intervals, over the splits that both have.
    """
    with_, without = (
        samples(table[table["method"] == method], ["metric", "dataset"]) for method in (OURS, FREE)
    )
    cells = gaps(with_, without, [metric for metric in METRICS if METRICS[metric]])
    marks = {key: f"{star} (n = {cells[key].count})" for key, star in stars(cells).items()}
    names = [name for name in TABLES if name in set(table["dataset"])]
    lines = [[m, *(shown(cells[m, n], mark=marks[m, n]) for n in names)] for m in METRICS]
    return markdown(["Metric", *(HEADINGS[name] for name in names)], lines)


def splits(table: pd.DataFrame, metric: str = "log score") -> str:
    """The number of splits on which every method has a metric, of every table."""
    table = table[table["metric"] == metric]
    fits = table[table["method"] != FREE].drop_duplicates(["dataset", "split", "method"])
    count = fits.groupby(["dataset", "split"])["method"].nunique()
    whole = (count == count.max()).groupby("dataset").sum()
    return ", ".join(f"{title} {whole.get(name, 0)}" for name, title in HEADINGS.items())


def _folds(repeats: int) -> list[tuple[str, int]]:
    return [(f"{repeat}.{fold}", repeat) for repeat in range(repeats) for fold in range(FOLDS)]


def _version(method: str) -> dict[str, Any]:
    import sksurv

    return {"scikit-survival": sksurv.__version__}


STUDY = Study(
    *("survival", str(__doc__), TABLES, dict.fromkeys(METHODS), run, "11"),
    counted="repeats",
    protocol="5-fold",
    splits=_folds,
    version=_version,
    quick={"shuffled": 1},
    file="survival_{dataset}",
)
