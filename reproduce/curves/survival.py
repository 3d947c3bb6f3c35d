"""Survival: `GCMSurvival` beside Cox, forests, boosting and Kaplan-Meier on four public tables.

Repeated 5-fold splits. scikit-survival brings the rivals, the tables and most scores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyro_gcm.estimators import GCMSurvival
from reproduce.data.survival_data import TABLES, load
from reproduce.intervals import gaps, samples, stars
from reproduce.rendering.markdown import cross_table, shown
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
#: Times of the integrated Brier score, from the 10th to the 90th percentile of the events of a
#: whole table, and bins of the log score.
POINTS, BINS = 50, 10
#: Weight of the uniform distribution over the bins in every log score: no score is infinite.
UNIFORM = 0.01
#: Groups of the calibration error, at most, and rows of a group, at least.
GROUPS, GROUP_ROWS = 5, 25
#: Metrics, and whether lower is better.
METRICS = {
    "integrated Brier score": True,
    "log score": False,
    "Harrell's C": False,
    "Uno's C": False,
    "time-dependent AUC": False,
    "calibration error": True,
}


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    X, y = load(fit.dataset)
    if "shuffled" in fit.options:
        y = y[np.random.default_rng(0).permutation(len(y))]
    repeat, fold = map(int, fit.split.split("."))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat)
    learn, test = [*folds.split(X, load(fit.dataset)[1]["event"])][fold]
    known = predicted(fit, X.iloc[learn], y[learn], X.iloc[test], device)
    first, last = np.quantile(y["time"][y["event"]], [0.1, 0.9])
    times = np.linspace(first, last, POINTS)
    return scores(known, y[learn], y[test], times)


def scores(known: Predicted, learn: Array, test: Array, times: Array) -> Scores:
    """Concordances, time-dependent AUC, Brier and log score, and calibration of test rows.

    Weights by the probability of being censored come from the training rows. Test rows are followed
    up to the last of the times only, which changes no Brier score, and integrals are over the
    times at which some are. The time-dependent AUC is the cumulative and dynamic one: of rows with
    an event by t against rows without, by Pr(T <= t), the mean over times.

    :param known: of test rows; `learn`: (event, time) of training rows, `test`: of test rows, [n].
    :param times: of the Brier score, [POINTS].
    """
    from sksurv import metrics

    (risk, curves), followed = known, test.copy()
    at_times = curves(times)
    # The bins of the log score are those of the events of training rows; the last is without end.
    edges = np.unique(np.quantile(learn["time"][learn["event"]], np.arange(1, BINS) / BINS))
    end = times[-1] * (1.0 + 1e-9)
    followed["event"] &= test["time"] <= end
    followed["time"] = np.minimum(test["time"], end)
    # Before the first of its rows a test set says nothing, and after the last one neither.
    inside = (times >= followed["time"].min()) & (times < followed["time"].max())
    events = followed["time"][followed["event"]]
    between = inside & (times >= events.min())  # an AUC needs an event
    at, before = times[between], 1.0 - at_times[:, between]
    brier = metrics.integrated_brier_score(learn, followed, at_times[:, inside], times[inside])
    harrell = metrics.concordance_index_censored(test["event"], test["time"], risk)[0]
    middle = POINTS // 2
    return {
        "Harrell's C": float(harrell),
        "Uno's C": float(metrics.concordance_index_ipcw(learn, followed, risk)[0]),
        "integrated Brier score": float(brier),
        "log score": log_score(test, curves(edges), edges),
        "time-dependent AUC": float(metrics.cumulative_dynamic_auc(learn, followed, before, at)[1]),
        "calibration error": calibration_error(test, at_times[:, middle], times[middle]),
    }


def calibration_error(test: Array, survival: Array, time: float) -> float:
    """Mean absolute difference of predicted and observed survival at a time, over groups of rows.

    Groups are quantiles of the prediction, five or fewer, of 25 rows or more; what was observed
    of a group is its Kaplan-Meier estimate. Rows count equally.

    :param survival: Pr(T > time), [n].
    """
    from sksurv.nonparametric import kaplan_meier_estimator

    count = max(1, min(GROUPS, len(test) // GROUP_ROWS))
    edges = np.quantile(survival, np.arange(1, count) / count)
    group = np.searchsorted(edges, survival)
    gaps = np.zeros(len(test))
    for rows in (group == each for each in np.unique(group)):
        at, curve = kaplan_meier_estimator(test["event"][rows], test["time"][rows])
        observed = np.append(1.0, curve)[np.searchsorted(at, time, side="right")]
        gaps[rows] = abs(survival[rows].mean() - observed)
    return float(gaps.mean())


def log_score(test: Array, at_edges: Array, edges: Array) -> float:
    """Mean log-probability of what was seen of a time, in nats a row, the same for every method.

    An event has the probability of its bin, and a censored row that of its bin and all later ones;
    the bins' probabilities are mixed with 1 % of the uniform distribution.

    :param at_edges: Pr(T > edge), [n, E].
    :param edges: [E], rising.
    """
    rows = len(test)
    curve = np.hstack([np.ones((rows, 1)), at_edges, np.zeros((rows, 1))])
    bins = -np.diff(curve, axis=1)
    bins = (1.0 - UNIFORM) * bins + UNIFORM / bins.shape[1]
    own = np.searchsorted(edges, test["time"], side="left")
    later = bins[:, ::-1].cumsum(1)[:, ::-1]
    each = np.arange(rows)
    seen = np.where(test["event"], bins[each, own], later[each, own])
    return float(np.log(seen).mean())


def report(table: pd.DataFrame, metric: str) -> str:
    """Mean of a metric of every method and table, the best in bold.

    * where the paired difference to the best is not 0: the test is that of repeated splits,
    corrected for the rows that they share, with Holm's correction over the methods of a table.
    """
    rows = table[(table["metric"] == metric) & (table["method"] != FREE)]
    values, lower = samples(rows, ["method", "dataset"]), dict.fromkeys(HEADINGS, METRICS[metric])
    columns = {name: title for name, title in HEADINGS.items() if name in {n for _, n in values}}
    return ranked(values, columns, lower, METHODS, family=True)


def worth(table: pd.DataFrame) -> str:
    """What directions gain: members with them minus members without, positive where better.

    Paired, with corrected intervals, over the splits that both have.
    """
    with_, without = (
        samples(table[table["method"] == method], ["metric", "dataset"]) for method in (OURS, FREE)
    )
    cells = gaps(with_, without, [metric for metric in METRICS if METRICS[metric]])
    marks = {key: f"{star} (n = {cells[key].count})" for key, star in stars(cells).items()}
    texts = {key: shown(cell, mark=marks[key]) for key, cell in cells.items()}
    columns = {name: title for name, title in HEADINGS.items() if name in set(table["dataset"])}
    return cross_table(texts, METRICS, columns, "Metric")


def splits(table: pd.DataFrame, metric: str = "log score") -> str:
    """The number of splits on which every method has a metric, of every table."""
    table = table[table["metric"] == metric]
    fits = table[table["method"] != FREE].drop_duplicates(["dataset", "split", "method"])
    count = fits.groupby(["dataset", "split"])["method"].nunique()
    whole = (count == count.max()).groupby("dataset").sum()
    return ", ".join(f"{title} {whole.get(name, 0)}" for name, title in HEADINGS.items())


STUDY = Study(
    *("survival", str(__doc__), TABLES, dict.fromkeys(METHODS), run, "11"),
    counted="repeats",
    protocol="5-fold",
    splits=lambda count: [(f"{n}.{fold}", n) for n in range(count) for fold in range(FOLDS)],
    version=lambda method: {"scikit-survival": version("scikit-survival")},
    quick={"shuffled": 1},
    file="survival_{dataset}",
)
