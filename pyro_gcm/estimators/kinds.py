"""Kinds of models: which an estimator is, its one monotone prediction, and what came of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyro_gcm.estimators.event_times import event_times
from pyro_gcm.estimators.levels import places_of
from pyro_gcm.estimators.targets import target_column, target_numbers


class Kind(NamedTuple):
    """The response of a kind of model, and the estimators that are of it."""

    response: str
    classes: tuple[str, ...]


#: All kinds, by name.
KINDS = {
    "classifier": Kind("binary", ("GCMClassifier", "IGCMClassifier")),
    "regressor": Kind("continuous", ("GCMRegressor", "IGCMRegressor")),
    "distribution": Kind("distribution", ("GCMRegressor",)),
    "ordinal": Kind("ordinal", ("GCMOrdinal",)),
    "survival": Kind("survival", ("GCMSurvival",)),
}


def kind_of(estimator: Any) -> str:
    """The kind of an estimator: classifier, regressor, distribution, ordinal or survival."""
    found = (name for name, kind in KINDS.items() if kind.response == estimator.response)
    return next(found, "regressor")  # whose response may be left to the rows


def kind_of_class(name: str, response: str | None = None) -> str:
    """The kind of the estimators of a class, by its name and their option `response`, if any."""
    kinds = [kind for kind, of in KINDS.items() if name in of.classes]
    return next((kind for kind in kinds if KINDS[kind].response == response), kinds[0])


def monotone_prediction(estimator: Any, X: Any) -> npt.NDArray[np.float64]:
    """The one monotone prediction of each row: a probability, a mean, a mean place or a risk, [n].

    :param estimator: fitted.
    :param X: a table of n rows.
    """
    found: npt.NDArray[np.float64]
    if kind_of(estimator) == "classifier":
        found = estimator.predict_proba(X)[:, estimator.event_column_]
    elif kind_of(estimator) == "ordinal":
        found = estimator.predict_mean(X)
    else:
        found = estimator.predict(X)
    return found


def outcomes_of(estimator: Any, y: Any, name: str = "y") -> Any:
    """What came of rows, as an estimator reads it.

    :param estimator: fitted.
    :param y: in any form that `fit` takes, [n].
    :param name: how messages call y.
    :returns: those of `classes_`, or numbers, [n]; or `SurvivalTimes`.
    :raises TypeError: as `fit` does.
    :raises ValueError: as `fit` does, and for labels that are none of `classes_`.
    """
    kind = kind_of(estimator)
    if kind == "survival":
        return event_times(y, estimator.event_codes_)[0]
    if kind in ("classifier", "ordinal"):
        labels = target_column(name, y)
        return estimator.classes_[places_of(labels, estimator.classes_, name, "those of fit")]
    return target_numbers(name, y)
