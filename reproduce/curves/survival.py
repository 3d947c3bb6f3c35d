"""Survival: `GCMSurvival` beside Cox, forests, boosting and Kaplan-Meier on four public tables.

Repeated 5-fold splits. scikit-survival brings the rivals, the tables and most scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
from reproduce.intervals import LEVEL, TEST_TO_TRAIN, Place, holm, paired_interval, ranking, samples
from reproduce.rendering.markdown import NOT_RUN, grid, markdown, shown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

Array = npt.NDArray[Any]
#: Members, which are compared with members that have no directions.
OURS, FREE = "GCM members", "GCM members, no directions"
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

    * where the paired difference to the best is not 0, see `_places`.
    """
    cells, marks = {}, {}
    columns = {name: entry.title.split(",")[0] for name, entry in TABLES.items()}
    for name, method, place, p in _places(table, metric):
        cells[method, name] = place.score
        marks[method, name] = "*" if p < LEVEL else ""
    columns = {name: title for name, title in columns.items() if name in {key[1] for key in cells}}
    if not cells:
        return f"{NOT_RUN.capitalize()}."
    return grid(cells, columns, dict.fromkeys(columns, METRICS[metric]), marks, METHODS)


def level_with_first(table: pd.DataFrame, metric: str, method: str) -> str:
    """On how many tables a method is first, or not told from the first."""
    found = [p >= LEVEL for _, other, _, p in _places(table, metric) if other == method]
    return f"{sum(found)} of {len(found)}"


def worth(table: pd.DataFrame) -> str:
    """What directions gain: members with them minus members without, positive where better.

    Paired, with corrected intervals, over the splits that both have.
    """
    names = [name for name in TABLES if name in set(table["dataset"])]
    lines = []
    for metric, lower in METRICS.items():
        line = [metric]
        for name in names:
            rows = table[(table["metric"] == metric) & (table["dataset"] == name)]
            values = samples(rows, "method")
            if not {OURS, FREE} <= set(values):
                return f"{NOT_RUN.capitalize()}."
            sign = -1.0 if lower else 1.0
            gain = paired_interval(sign * values[OURS], sign * values[FREE], TEST_TO_TRAIN)
            line.append(f"{shown(gain, mark='*' if gain.excludes(0.0) else '')} (n = {gain.count})")
        lines.append(line)
    titles = [TABLES[name].title.split(",")[0] for name in names]
    return markdown(["Metric", *titles], lines)


def splits(table: pd.DataFrame, metric: str = "log score") -> str:
    """The number of splits on which every method has a metric, of every table."""
    table = table[table["metric"] == metric]
    fits = table[table["method"] != FREE].drop_duplicates(["dataset", "split", "method"])
    count = fits.groupby(["dataset", "split"])["method"].nunique()
    whole = (count == count.max()).groupby("dataset").sum()
    return ", ".join(f"{TABLES[name].title.split(',')[0]} {whole.get(name, 0)}" for name in TABLES)


def _places(table: pd.DataFrame, metric: str) -> Iterator[tuple[str, str, Place, float]]:
    """(data set, method, its place, p-value of its paired difference to the first; 1 for that).

    The test is that of repeated splits, corrected for the rows that they share, and the p-values
    are Holm's over the methods of a table.
    """
    rows = table[(table["metric"] == metric) & (table["method"] != FREE)]
    for name in TABLES:
        values = samples(rows[rows["dataset"] == name], "method")
        if not values:
            continue
        places = ranking(values, METRICS[metric], TEST_TO_TRAIN)
        adjusted = holm({p.method: p.behind.p_value for p in places if p.behind is not None})
        for place in places:
            yield name, place.method, place, adjusted.get(place.method, 1.0)


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
