"""Survival: `GCMSurvival` beside Cox, forests, boosting and Kaplan-Meier on four public tables.

Repeated 5-fold splits. scikit-survival brings the rivals, the tables and most scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
from reproduce.runs import Fit, Scores
from reproduce.study import Study

Array = npt.NDArray[Any]
#: Members, which are compared with members that have no directions.
OURS, FREE = "GCM members", "GCM members, no directions"
HEADINGS = {name: entry.title.split(",")[0] for name, entry in TABLES.items()}
#: (risk, times -> Pr(T > t) [n, T]) of test rows.
Predicted = tuple[Array, Callable[[Array], Array]]


def _gcm(name: str, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    """Members with their defaults and the directions that medicine gives."""
    return _of_gcm(TABLES[name].signs, learn, y, test, seed, device)


def _free_gcm(name: str, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    """The same without directions: what they are worth."""
    return _of_gcm(None, learn, y, test, seed, device)


def _of_gcm(signs: Any, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    model = GCMSurvival(monotonic_cst=signs, random_state=seed, device=device).fit(learn, y)

    def curves(times: Array) -> Array:
        found: Array = model.predict_survival_function(test, True, times=times)
        return found

    return model.predict(test), curves


def _cox(name: str, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    """Cox's proportional hazards with a ridge of 0.1, which the rare levels of a table need."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    return _of_rival(CoxPHSurvivalAnalysis(alpha=0.1), learn, y, test)


def _forest(name: str, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    """A random survival forest with the sizes of scikit-survival's guide, and 200 trees."""
    from sksurv.ensemble import RandomSurvivalForest

    sizes: dict[str, Any] = {"min_samples_split": 10, "min_samples_leaf": 15}
    return _of_rival(
        RandomSurvivalForest(200, **sizes, random_state=seed, n_jobs=1), learn, y, test
    )


def _boosting(name: str, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    """Gradient boosting of Cox's partial likelihood with its defaults: 100 trees, rate 0.1."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    return _of_rival(GradientBoostingSurvivalAnalysis(random_state=seed), learn, y, test)


def _kaplan_meier(name: str, learn: Any, y: Array, test: Any, seed: int, device: str) -> Predicted:
    """One curve for all rows."""
    from sksurv.nonparametric import kaplan_meier_estimator

    at, survival = kaplan_meier_estimator(y["event"], y["time"])
    curve = _steps(at, np.tile(survival, (len(test), 1)))
    return np.zeros(len(test)), curve


METHODS: dict[str, Callable[..., Predicted]] = {
    OURS: _gcm,
    FREE: _free_gcm,
    "Cox": _cox,
    "Random survival forest": _forest,
    "Gradient boosting": _boosting,
    "Kaplan-Meier": _kaplan_meier,
}


def _of_rival(model: Any, learn: Any, y: Array, test: Any) -> Predicted:
    """A model of scikit-survival on scaled numbers and indicators of the levels."""
    both = pd.get_dummies(pd.concat([learn, test]), drop_first=True).astype(float)
    fitted = make_pipeline(StandardScaler(), model).fit(both[: len(learn)].to_numpy(), y)
    rows = both[len(learn) :].to_numpy()
    survival = fitted.predict_survival_function(rows, return_array=True)
    return fitted.predict(rows), _steps(fitted[-1].unique_times_, survival)


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
    start = time.perf_counter()
    risk, curves = METHODS[fit.method](
        fit.dataset, X.iloc[learn], y[learn], X.iloc[test], fit.seed, device
    )
    times = brier_times(y)
    at_times, at_edges = curves(times), curves(log_edges(y[learn]))
    cost = {"seconds": time.perf_counter() - start, "epochs": 0.0}
    return {**survival_scores(y[learn], y[test], risk, at_times, times, at_edges), **cost}


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
    (cells,) = (line.split(" | ")[1:] for line in lines if line.startswith(f"| {method} |"))
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
    *("survival", str(__doc__), TABLES, METHODS, run, "11"),
    counted="repeats",
    protocol="5-fold",
    splits=_folds,
    version=_version,
    quick={"shuffled": 1},
    needs={"sksurv": "compare"},
    file="survival_{dataset}",
)
