"""Rivals of credit scoring with the defaults of their libraries, on tables as they come.

Each is a function (rows, **options of the library) -> function of a table to Pr(y = 1); without
directions it is the same model without constraints. All run in one thread. Where a library does not
read categories or missing values itself, what it is given is said at its function.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

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


class Rows(NamedTuple):
    """What a method is trained on.

    :param y: 0 or 1, [n].
    :param directions: of columns by name; empty for a model without constraints.
    """

    X: pd.DataFrame
    y: Array
    directions: Directions
    seed: int

    @property
    def signs(self) -> list[int]:
        """A direction for every column, in their order."""
        return [self.directions.get(str(name), 0) for name in self.X]


def _probability(model: Any, read: Callable[[pd.DataFrame], Any] = lambda X: X) -> Predict:
    return lambda X: np.asarray(model.predict_proba(read(X)))[:, 1]


def _categories(X: pd.DataFrame) -> list[str]:
    return [str(name) for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]


def _as_text(X: pd.DataFrame, missing: str = "missing") -> pd.DataFrame:
    """Categories as text, of which a missing one has a level of its own."""
    return X.assign(**{n: X[n].astype(object).where(X[n].notna(), missing) for n in _categories(X)})


def _ours(prior: str, rows: Rows) -> Predict:
    options: Any = {"prior": prior, "random_state": rows.seed, "device": "cpu"}
    model = GCMClassifier(monotonic_cst=dict(rows.directions), **options)
    return _probability(model.fit(rows.X, rows.y))


def _lightgbm(way: str, rows: Rows) -> Predict:
    from lightgbm import LGBMClassifier

    constraints = {"monotone_constraints_method": way, "monotone_constraints": rows.signs}
    options: Any = constraints if rows.directions else {}  # "advanced" alone ends the process
    model = LGBMClassifier(n_jobs=1, verbose=-1, random_state=rows.seed, **options)
    return _probability(model.fit(rows.X, rows.y))


def _xgboost(rows: Rows) -> Predict:
    from xgboost import XGBClassifier

    options: Any = {"monotone_constraints": tuple(rows.signs)} if rows.directions else {}
    options |= {"enable_categorical": True, "n_jobs": 1, "random_state": rows.seed}
    return _probability(XGBClassifier(**options).fit(rows.X, rows.y))


def _catboost(rows: Rows, **options: Any) -> Predict:
    """Missing categories are a level."""
    from catboost import CatBoostClassifier

    if rows.directions:
        options["monotone_constraints"] = rows.signs
    options |= {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    options |= {"cat_features": _categories(rows.X), "random_seed": rows.seed}
    model = CatBoostClassifier(**options).fit(_as_text(rows.X), rows.y)
    return lambda X: np.asarray(
        model.predict_proba(_as_text(X), thread_count=1)[:, 1], dtype=np.float64
    )


def _hist(rows: Rows) -> Predict:
    options: Any = {"monotonic_cst": dict(rows.directions) or None, "random_state": rows.seed}
    return _probability(HistGradientBoostingClassifier(**options).fit(rows.X, rows.y))


def _ydf(rows: Rows) -> Predict:
    """Numbers that are missing are imputed with the mean, which is the library's default."""
    import ydf

    ydf.verbose(0)
    features = [ydf.Column(str(n), monotonic=rows.directions.get(str(n))) for n in rows.X]
    # Monotonic splits need gains by the Hessian, which are not the default; both modes have them.
    options: Any = {"use_hessian_gain": True, "random_seed": rows.seed + 1, "num_threads": 1}
    learner = ydf.GradientBoostedTreesLearner(label="event", features=features, **options)
    model = learner.train(_as_text(rows.X, "").assign(event=rows.y.astype(int)))
    return lambda X: np.asarray(
        model.predict(_as_text(X, ""), use_slow_engine=False, num_threads=1), dtype=np.float32
    )


def _ebm(rows: Rows, **options: Any) -> Predict:
    from interpret.glassbox import ExplainableBoostingClassifier

    signs = rows.signs if rows.directions else None
    options |= {"monotone_constraints": signs, "n_jobs": 1, "random_state": rows.seed}
    model = ExplainableBoostingClassifier(**options)
    return _probability(model.fit(_as_text(rows.X), rows.y), _as_text)


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


def _h2o(rows: Rows) -> Predict:
    """Gradient boosting of H2O, whose server reads tables as text, of every digit."""
    import h2o
    from h2o.estimators import H2OGradientBoostingEstimator

    _h2o_server()
    text = _categories(rows.X)
    types = {str(name): "enum" if str(name) in text else "numeric" for name in rows.X}

    def read(X: pd.DataFrame, types: dict[str, str] = types) -> Any:
        numbers = X.select_dtypes("number")
        return h2o.H2OFrame(X.assign(**numbers.astype("float64")), column_types=types)

    table = rows.X.assign(event=rows.y).astype({"event": "category"})
    frame, signs = read(table, {**types, "event": "enum"}), dict(rows.directions) or None
    model = H2OGradientBoostingEstimator(monotone_constraints=signs, seed=rows.seed)
    model.train(y="event", training_frame=frame)
    h2o.remove(frame)

    def predict(X: pd.DataFrame) -> Array:
        frame = read(X)
        found = model.predict(frame)
        _, *lines = found.as_data_frame(use_pandas=False)
        h2o.remove([frame, found])
        return np.array([line[-1] for line in lines], dtype=np.float64)

    return predict


def _perpetual(rows: Rows) -> Predict:
    from perpetual import PerpetualBooster

    signs = dict(rows.directions) or None
    model = PerpetualBooster(monotone_constraints=signs, num_threads=1, seed=rows.seed)
    return _probability(model.fit(rows.X, rows.y))


def _glum(rows: Rows) -> Predict:
    """A scorecard: ten bins of every number, in the order of its direction by glum's constraints.

    The bins have equal numbers of training rows. A missing value is a term of its own, and a level
    of no training row has none. A small ridge makes the solution unique.
    """
    from glum import GeneralizedLinearRegressor

    X, (texts, tenths) = rows.X, (_as_text(rows.X)[_categories(rows.X)], np.arange(1, 10) / 10)
    edges = {str(n): np.unique(np.nanquantile(X[n], tenths)) for n in X if n not in texts}
    # Bins without training rows, where many have one value, go to the one below.
    filled = {
        n: np.unique(np.searchsorted(e, X[n].dropna(), side="right")) for n, e in edges.items()
    }
    levels = {str(name): sorted(column.unique()) for name, column in texts.items()}
    names = {str(name): f"c{at}" for at, name in enumerate(X)}

    def read(X: pd.DataFrame) -> pd.DataFrame:
        made, text = dict[str, Any](), _as_text(X)
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
        for name, sign in rows.directions.items()
        if names[name] in used
    }
    options: Any = {"family": "binomial", "alpha": 1e-4, "cat_missing_method": "zero"}
    options |= {"formula": " + ".join(map(str, used)), "monotonic_constraints": rules or None}
    model = GeneralizedLinearRegressor(**options).fit(table, rows.y)
    return lambda X: np.asarray(model.predict(read(X)), dtype=np.float64)


def _logistic(rows: Rows) -> Predict:
    """Logistic regression of scikit-learn; with directions, its loss with bounds of coefficients.

    Numbers are standardised, missing ones are the median with a column that says so, and categories
    are 0/1 columns.
    """
    X, y, directions, _ = rows
    of_type = make_column_selector
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    missing = SimpleImputer(strategy="constant", fill_value="missing")
    text = make_pipeline(missing, OneHotEncoder(handle_unknown="ignore", sparse_output=False))
    numeric, categorical = of_type(dtype_include="number"), of_type(dtype_exclude="number")
    columns = [("numbers", numbers, numeric), ("text", text, categorical)]
    reader = ColumnTransformer(columns).fit(_as_text(X))
    lacking = [name for name in numeric(X) if X[name].isna().any()]

    def read(X: pd.DataFrame) -> Array:
        gaps = X[lacking].isna().to_numpy(np.float64)
        return np.hstack([reader.transform(_as_text(X)), gaps])

    inputs = read(X)
    if not directions:
        return _probability(LogisticRegression(max_iter=1000).fit(inputs, y), read)
    signs = np.zeros(inputs.shape[1] + 1)
    signs[: len(numeric(X))] = [directions.get(str(name), 0) for name in numeric(X)]

    def loss(w: Array) -> tuple[float, Array]:
        """That of scikit-learn: the sum of the log losses and half the square of w."""
        score = inputs @ w[:-1] + w[-1]
        gap = 1.0 / (1.0 + np.exp(-score)) - y
        value = np.logaddexp(0.0, score).sum() - y @ score + 0.5 * w[:-1] @ w[:-1]
        return float(value), np.append(inputs.T @ gap + w[:-1], gap.sum())

    bounds = [(0.0 if s > 0 else None, 0.0 if s < 0 else None) for s in signs]
    w = minimize(loss, np.zeros(len(signs)), jac=True, method="L-BFGS-B", bounds=bounds).x
    return lambda X: 1.0 / (1.0 + np.exp(-(read(X) @ w[:-1] + w[-1])))


def _isotonic(rows: Rows) -> Predict:
    """Isotonic regression on the one column with a direction that is best for the training rows.

    Rows without its value have their rate of events.
    """

    X, y, directions, _ = rows

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

    fit: Callable[[Rows], Predict]
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
    if version_of(method) and (rival.program is None or shutil.which(rival.program)):
        return False
    needed = " and ".join(filter(None, [rival.package, rival.program]))
    print(f"{method} is skipped: it needs {needed}; pip install pyro-gcm[boosting,rivals]")
    return True


def version_of(method: str) -> Settings:
    """The version of the package whose defaults a method has; empty where it lacks."""
    package = METHODS[method].package
    try:
        found = getattr(import_module(package), "__version__", None)
    except ImportError:
        return {}
    return {package: found or version(package)}
