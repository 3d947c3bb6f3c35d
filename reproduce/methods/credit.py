"""Rivals of credit scoring with the defaults of their libraries, on tables as they come.

Each is a function (X, y, directions, seed, **options of the library) -> function of a table to
Pr(y = 1); without directions it is the same model without constraints. All run in one thread. Where
a library does not read categories or missing values itself, what it is given is said at its
function.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pyro_gcm.estimators import GCMClassifier
from reproduce.data.credit_tables import Array, Directions
from reproduce.runs import Settings

Predict = Callable[[pd.DataFrame], Array]
Train = Callable[..., Predict]


def _probability(model: Any, read: Callable[[pd.DataFrame], Any] = lambda X: X) -> Predict:
    return lambda X: np.asarray(model.predict_proba(read(X)))[:, 1]


def _signs(X: pd.DataFrame, directions: Directions) -> list[int]:
    """A direction for every column, in their order."""
    return [directions.get(str(name), 0) for name in X]


def _categories(X: pd.DataFrame) -> list[str]:
    return [str(name) for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]


def _as_text(X: pd.DataFrame, missing: str) -> pd.DataFrame:
    """Categories as text, of which a missing one has a level of its own."""
    return X.assign(**{n: X[n].astype(object).where(X[n].notna(), missing) for n in _categories(X)})


def _ours(prior: str, X: pd.DataFrame, y: Array, directions: Directions, seed: int) -> Predict:
    model = GCMClassifier(
        prior=prior, monotonic_cst=dict(directions), random_state=seed, device="cpu"
    )
    return _probability(model.fit(X, y))


def _lightgbm(
    way: str, X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any
) -> Predict:
    from lightgbm import LGBMClassifier

    if directions:
        signs = _signs(X, directions)
        options = {"monotone_constraints_method": way, **options, "monotone_constraints": signs}
    else:  # "advanced" without constraints ends the process
        options.pop("monotone_constraints_method", None)
    model = LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed, **options)
    return _probability(model.fit(X, y))


def _xgboost(
    X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any
) -> Predict:
    from xgboost import XGBClassifier

    if directions:
        options["monotone_constraints"] = tuple(_signs(X, directions))
    model = XGBClassifier(enable_categorical=True, n_jobs=1, random_state=seed, **options)
    return _probability(model.fit(X, y))


def _catboost(
    X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any
) -> Predict:
    """Missing categories are a level."""
    from catboost import CatBoostClassifier

    if directions:
        options["monotone_constraints"] = _signs(X, directions)
    fixed = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = CatBoostClassifier(
        cat_features=_categories(X), random_seed=seed, **{**fixed, **options}
    )
    model.fit(_as_text(X, "missing"), y)
    return lambda X: np.asarray(
        model.predict_proba(_as_text(X, "missing"), thread_count=1)[:, 1], dtype=np.float64
    )


def _hist(X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any) -> Predict:
    options |= {"monotonic_cst": dict(directions) or None, "random_state": seed}
    return _probability(HistGradientBoostingClassifier(**options).fit(X, y))


def _ydf(X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any) -> Predict:
    """Numbers that are missing are imputed with the mean, which is the library's default."""
    import ydf

    ydf.verbose(0)
    label = "event"
    # Monotonic splits need gains by the Hessian, which are not the default; both modes have them.
    learner = ydf.GradientBoostedTreesLearner(
        label=label,
        features=[ydf.Column(str(name), monotonic=directions.get(str(name))) for name in X],
        use_hessian_gain=True,
        random_seed=seed + 1,
        num_threads=1,
        **options,
    )
    model = learner.train(_as_text(X, "").assign(**{label: y.astype(int)}))
    return lambda X: np.asarray(
        model.predict(_as_text(X, ""), use_slow_engine=False, num_threads=1), dtype=np.float32
    )


def _ebm(X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any) -> Predict:
    from interpret.glassbox import ExplainableBoostingClassifier

    signs = _signs(X, directions) if directions else None
    model = ExplainableBoostingClassifier(
        monotone_constraints=signs, n_jobs=1, random_state=seed, **options
    )
    return _probability(model.fit(_as_text(X, "missing"), y), lambda X: _as_text(X, "missing"))


@cache
def _h2o_server() -> None:
    """A server of this process, which ends with it."""
    import h2o
    from h2o.backend import H2OLocalServer

    h2o.connect(server=H2OLocalServer.start(nthreads=1, verbose=False), verbose=False)
    h2o.no_progress()


def _h2o_clock() -> float:
    """The time once the server is there, whose start is no part of a fit."""
    _h2o_server()
    return time.perf_counter()


def _h2o(X: pd.DataFrame, y: Array, directions: Directions, seed: int, **options: Any) -> Predict:
    """Gradient boosting of H2O, whose server reads tables as text, of every digit."""
    import h2o
    from h2o.estimators import H2OGradientBoostingEstimator

    _h2o_server()
    types = {str(name): "enum" if str(name) in _categories(X) else "numeric" for name in X}

    def read(X: pd.DataFrame, types: dict[str, str] = types) -> Any:
        numbers = X.select_dtypes("number")
        return h2o.H2OFrame(X.assign(**numbers.astype("float64")), column_types=types)

    label = "event"
    rows = read(X.assign(**{label: y}).astype({label: "category"}), {**types, label: "enum"})
    model = H2OGradientBoostingEstimator(
        monotone_constraints=dict(directions) or None, seed=seed, **options
    )
    model.train(y=label, training_frame=rows)
    h2o.remove(rows)

    def predict(X: pd.DataFrame) -> Array:
        rows = read(X)
        found = model.predict(rows)
        _, *lines = found.as_data_frame(use_pandas=False)
        h2o.remove([rows, found])
        return np.array([line[-1] for line in lines], dtype=np.float64)

    return predict


def _perpetual(X: pd.DataFrame, y: Array, directions: Directions, seed: int) -> Predict:
    from perpetual import PerpetualBooster

    signs = dict(directions) or None
    model = PerpetualBooster(monotone_constraints=signs, num_threads=1, seed=seed)
    return _probability(model.fit(X, y))


def _glum(
    X: pd.DataFrame,
    y: Array,
    directions: Directions,
    seed: int,
    *,
    bins: int = 10,
    alpha: float = 1e-4,
) -> Predict:
    """A scorecard: bins of every number, in the order of its direction by glum's constraints.

    The bins have equal numbers of training rows. A missing value is a term of its own, and a level
    of no training row has none. A small ridge makes the solution unique.
    """
    from glum import GeneralizedLinearRegressor

    numbers = [str(name) for name in X if name not in _categories(X)]
    edges = {
        name: np.unique(np.nanquantile(X[name], np.arange(1, bins) / bins)) for name in numbers
    }
    # Bins without training rows, where many have one value, go to the one below.
    filled = {
        n: np.unique(np.searchsorted(e, X[n].dropna(), side="right")) for n, e in edges.items()
    }
    categories = _as_text(X, "missing")[_categories(X)]
    levels = {str(name): sorted(column.unique()) for name, column in categories.items()}
    names = {str(name): f"c{at}" for at, name in enumerate(X)}

    def read(X: pd.DataFrame) -> pd.DataFrame:
        made, text = dict[str, Any](), _as_text(X, "missing")
        for name, column in names.items():
            if name in edges:
                at = np.searchsorted(edges[name], X[name].fillna(-np.inf), side="right")
                at = np.searchsorted(filled[name], at, side="right") - 1
                made[column] = pd.Categorical(at.clip(0), categories=range(len(filled[name])))
                made[f"{column}_missing"] = X[name].isna().astype(float)
            else:
                made[column] = pd.Categorical(text[name], categories=levels[name])
        return pd.DataFrame(made)

    table = read(X)
    used = [name for name in table if table[name].nunique() > 1]
    rules = {
        names[name]: "increasing" if sign > 0 else "decreasing"
        for name, sign in directions.items()
        if names[name] in used
    }
    model = GeneralizedLinearRegressor(
        family="binomial",
        alpha=alpha,
        formula=" + ".join(map(str, used)),
        monotonic_constraints=rules or None,
        cat_missing_method="zero",
    )
    model.fit(table, y)
    return lambda X: np.asarray(model.predict(read(X)), dtype=np.float64)


def _logistic(
    X: pd.DataFrame, y: Array, directions: Directions, seed: int, *, C: float = 1.0
) -> Predict:
    """Logistic regression of scikit-learn; with directions, its loss with bounds of coefficients.

    Numbers are standardised, missing ones are the median with a column that says so, and categories
    are 0/1 columns.
    """
    of_type = make_column_selector
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    missing = SimpleImputer(strategy="constant", fill_value="missing")
    text = make_pipeline(missing, OneHotEncoder(handle_unknown="ignore", sparse_output=False))
    numeric, categorical = of_type(dtype_include="number"), of_type(dtype_exclude="number")
    columns = [("numbers", numbers, numeric), ("text", text, categorical)]
    reader = ColumnTransformer(columns).fit(_as_text(X, "missing"))
    lacking = [name for name in numeric(X) if X[name].isna().any()]

    def read(X: pd.DataFrame) -> Array:
        gaps = X[lacking].isna().to_numpy(np.float64)
        return np.hstack([reader.transform(_as_text(X, "missing")), gaps])

    inputs = read(X)
    if not directions:
        return _probability(LogisticRegression(C=C, max_iter=1000).fit(inputs, y), read)
    signs = np.zeros(inputs.shape[1] + 1)
    signs[: len(numeric(X))] = [directions.get(str(name), 0) for name in numeric(X)]

    def loss(w: Array) -> tuple[float, Array]:
        """That of scikit-learn: the sum of the log losses and the square of w over 2 C."""
        score = inputs @ w[:-1] + w[-1]
        gap = 1.0 / (1.0 + np.exp(-score)) - y
        value = np.logaddexp(0.0, score).sum() - y @ score + 0.5 / C * w[:-1] @ w[:-1]
        return float(value), np.append(inputs.T @ gap + w[:-1] / C, gap.sum())

    bounds = [(0.0 if s > 0 else None, 0.0 if s < 0 else None) for s in signs]
    w = minimize(loss, np.zeros(len(signs)), jac=True, method="L-BFGS-B", bounds=bounds).x
    return lambda X: 1.0 / (1.0 + np.exp(-(read(X) @ w[:-1] + w[-1])))


def _isotonic(X: pd.DataFrame, y: Array, directions: Directions, seed: int) -> Predict:
    """Isotonic regression on the one column with a direction that is best for the training rows.

    Rows without its value have their rate of events.
    """

    def one(name: str) -> Predict:
        known = X[name].notna().to_numpy()
        line = IsotonicRegression(increasing=directions[name] > 0, out_of_bounds="clip")
        line.fit(X[name][known], y[known])
        rate = y[~known].mean() if not known.all() else y.mean()
        return lambda rows: np.where(
            rows[name].isna(), rate, line.predict(rows[name].fillna(0.0).to_numpy(np.float64))
        ).clip(1e-3, 1 - 1e-3)

    every = [one(name) for name in directions if X[name].notna().any()]
    return min(every, key=lambda predict: log_loss(y, predict(X)))


@dataclass(frozen=True)
class Rival:
    """A method of the tables.

    :param fit: see the module.
    :param package: the module that it needs, and whose version decides what the defaults are.
    :param free: whether there is a fit without constraints beside it: not for other ways of
        constraining the same model.
    :param program: that it needs beside the package.
    :param clock: that a fit is timed by: not of this process where another one does the work.
    """

    fit: Train
    package: str = "pyro_gcm"
    free: bool = True
    program: str | None = None
    clock: Callable[[], float] = time.process_time


METHODS: dict[str, Rival] = {
    "GCMClassifier": Rival(partial(_ours, "members")),
    "GCM": Rival(partial(_ours, "conditional"), free=False),  # the event needs a revenue
    "LightGBM": Rival(partial(_lightgbm, "basic"), "lightgbm"),
    "LightGBM, intermediate": Rival(partial(_lightgbm, "intermediate"), "lightgbm", free=False),
    "LightGBM, advanced": Rival(partial(_lightgbm, "advanced"), "lightgbm", free=False),
    "XGBoost": Rival(_xgboost, "xgboost"),
    "CatBoost": Rival(_catboost, "catboost"),
    # Of categories, which can break a direction.
    "CatBoost, no combinations": Rival(partial(_catboost, max_ctr_complexity=1), "catboost"),
    "HistGradientBoosting": Rival(_hist, "sklearn"),
    "YDF": Rival(_ydf, "ydf"),
    "EBM": Rival(_ebm, "interpret"),
    "EBM, no interactions": Rival(partial(_ebm, interactions=0), "interpret"),
    "H2O": Rival(_h2o, "h2o", program="java", clock=_h2o_clock),
    "Perpetual": Rival(_perpetual, "perpetual"),
    "glum, scorecard": Rival(_glum, "glum"),
    "Logistic regression": Rival(_logistic, "sklearn"),
    "Isotonic, one column": Rival(_isotonic, "sklearn", free=False),
}


def lacking(method: str) -> bool:
    """Whether a method cannot run here, which is told."""
    rival = METHODS[method]
    try:
        import_module(rival.package)
    except ImportError as error:
        reason = f"{error}; pip install pyro-gcm[boosting,rivals]"
    else:
        if rival.program is None or shutil.which(rival.program):
            return False
        reason = f"it needs the program {rival.program}"
    print(f"{method} is skipped: {reason}")
    return True


def version_of(method: str) -> Settings:
    """The version of the package whose defaults a method has; empty where it lacks."""
    package = METHODS[method].package
    try:
        found = getattr(import_module(package), "__version__", None)
    except ImportError:
        return {}
    return {package: found or version(package)}
