"""One look at untouched data sets: every method with its defaults, nothing chosen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import pandas as pd

import pyro_gcm
from pyro_gcm import GCM, IGCM, baselines, data, fit_members
from pyro_gcm.training import Diverged
from reproduce.arguments import Refused
from reproduce.data.untouched_data import UNTOUCHED, load
from reproduce.methods import Predictor, Rows, rows_of, seeded, spread_of_errors
from reproduce.rendering.markdown import NOT_RUN, markdown
from reproduce.rendering.tables import every_metric
from reproduce.runs import Fit, Scores, Settings
from reproduce.scores import distribution_scores
from reproduce.study import Study, each

#: Rows of --quick, whose outcomes are shuffled.
QUICK_ROWS = 1_000


@dataclass(frozen=True)
class Default:
    """A method with its defaults.

    :param fit: function (rows, seed, device) -> trained model and its number of epochs.
    :param package: the module whose version decides what the defaults are.
    :param density: whether the model has a density of a continuous y. Where it has not, the density
        is normal around its prediction, as wide as its errors on a fifth of the training rows that
        it was not trained on.
    """

    fit: Callable[[Rows, int, str], tuple[Predictor, int]]
    package: str
    density: bool = False


def _boosting(
    library: Any, options: Settings, rows: Rows, seed: int, device: str
) -> tuple[Predictor, int]:
    response: Any = rows.response
    model = baselines.MonotoneBoosting(library, response=response, seed=seed, **options)
    return model.fit(rows.x, rows.r, rows.y), 0


def _network(make: Callable[..., Any], rows: Rows, seed: int, device: str) -> tuple[Predictor, int]:
    sizes = rows.x.shape[1], rows.r.shape[1]
    model = seeded(make)(*sizes, response=rows.response, seed=seed)
    columns = rows.x, rows.r, rows.y
    result = baselines.fit(model, *columns, seed=seed, device=device, progress=False)
    return model, result.best_epoch


def _latent(make: Callable[..., Any], rows: Rows, seed: int, device: str) -> tuple[Predictor, int]:
    model = make(rows.x.shape[1], rows.r.shape[1], response=rows.response, seed=seed)
    columns = rows.x, rows.r, rows.y
    result = pyro_gcm.fit(model, *columns, seed=seed, device=device, progress=False)
    return model, result.best_epoch


def _members(rows: Rows, seed: int, device: str) -> tuple[Predictor, int]:
    columns, response = (rows.x, rows.r, rows.y), rows.response
    fitted = fit_members(*columns, response=response, seed=seed, device=device, progress=False)
    return fitted.model, fitted.result.best_epoch


#: The neural methods that the paper compares with.
NETWORKS = {
    "PosNN": baselines.PosNN,
    "MM": baselines.MM,
    "SMM": baselines.SMM,
    "CMNN": baselines.CMNN,
    "SMNN": baselines.SMNN,
    "Hint": baselines.Hint,
    "PWL": baselines.PWL,
}
#: Name -> method. The options of a booster are no settings: one thread, and no output.
METHODS = {
    "HistGradientBoosting": Default(partial(_boosting, "sklearn", {}), "sklearn"),
    "XGBoost": Default(partial(_boosting, "xgboost", {"n_jobs": 1}), "xgboost"),
    "LightGBM": Default(partial(_boosting, "lightgbm", {"n_jobs": 1}), "lightgbm"),
    "CatBoost": Default(partial(_boosting, "catboost", {"thread_count": 1}), "catboost"),
    "Members": Default(_members, "pyro_gcm", density=True),
    "GCM": Default(partial(_latent, GCM), "pyro_gcm", density=True),
    "IGCM": Default(partial(_latent, IGCM), "pyro_gcm", density=True),
    **{name: Default(partial(_network, make), "pyro_gcm") for name, make in NETWORKS.items()},
}


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split."""
    dataset = load(fit.dataset, fit.options.get("shuffled"))
    return held_out(METHODS[fit.method], dataset, fit, device)


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


def version_of(method: str) -> Settings:
    """The version of the library whose defaults a method has.

    :raises Refused: if it is not installed.
    """
    package = METHODS[method].package
    try:
        return {package: import_module(package).__version__}
    except ImportError as error:
        raise Refused(f"{method} needs {package}: pip install pyro-gcm[boosting]") from error


STUDY = Study(
    *("untouched", str(__doc__), dict.fromkeys(UNTOUCHED, ""), METHODS, run),
    each(dict.fromkeys(UNTOUCHED, ""), report),
    counted="seeds",
    quick_count=2,
    settings=version_of,
    quick={"shuffled": QUICK_ROWS},
)
