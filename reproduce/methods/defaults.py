"""Methods with the defaults of their libraries, nothing chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import pyro_gcm
from pyro_gcm import GCM, IGCM, baselines, fit_members
from reproduce.arguments import Refused
from reproduce.methods import Predictor, Rows, seeded
from reproduce.runs import Settings


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
DEFAULTS = {
    "HistGradientBoosting": Default(partial(_boosting, "sklearn", {}), "sklearn"),
    "XGBoost": Default(partial(_boosting, "xgboost", {"n_jobs": 1}), "xgboost"),
    "LightGBM": Default(partial(_boosting, "lightgbm", {"n_jobs": 1}), "lightgbm"),
    "CatBoost": Default(partial(_boosting, "catboost", {"thread_count": 1}), "catboost"),
    "Members": Default(_members, "pyro_gcm", density=True),
    "GCM": Default(partial(_latent, GCM), "pyro_gcm", density=True),
    "IGCM": Default(partial(_latent, IGCM), "pyro_gcm", density=True),
    **{name: Default(partial(_network, make), "pyro_gcm") for name, make in NETWORKS.items()},
}


def version_of(method: str) -> Settings:
    """The version of the library whose defaults a method has.

    :raises Refused: if it is not installed.
    """
    package = DEFAULTS[method].package
    try:
        return {package: import_module(package).__version__}
    except ImportError as error:
        raise Refused(f"{method} needs {package}: pip install pyro-gcm[boosting]") from error
