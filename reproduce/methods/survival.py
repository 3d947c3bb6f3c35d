"""Methods for right-censored times: ours, and those of scikit-survival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyro_gcm.estimators import GCMSurvival
from reproduce.data.survival_data import TABLES

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
