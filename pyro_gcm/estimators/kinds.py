"""Which kind of model an estimator is, and the one prediction of it that is monotone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Kinds by the name of the response.
_KINDS = {
    "binary": "classifier",
    "continuous": "regressor",
    "distribution": "distribution",
    "ordinal": "ordinal",
    "survival": "survival",
}


def kind_of(estimator: Any) -> str:
    """The kind of an estimator: classifier, regressor, distribution, ordinal or survival."""
    return _KINDS[estimator.response]


def monotone_prediction(estimator: Any, X: Any) -> npt.NDArray[np.float64]:
    """The one monotone prediction of each row: a probability, a mean, a mean place or a risk, [n].

    :param estimator: fitted.
    :param X: a table of n rows.
    """
    found: npt.NDArray[np.float64]
    if kind_of(estimator) == "classifier":
        found = estimator.predict_proba(X)[:, 1]
    elif kind_of(estimator) == "ordinal":
        found = estimator.predict_mean(X)
    else:
        found = estimator.predict(X)
    return found
