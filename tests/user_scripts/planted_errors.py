"""Wrong programs of users: mypy has to find each, as it calls an ignore without an error one."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor
from typing_extensions import assert_type

from pyro_gcm import GCM, fit, load
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier, GCMSurvival


def of_models(x: Tensor, r: Tensor, y: Tensor) -> None:
    model = GCM(3, 2, prior="conditonal")  # type: ignore[arg-type]
    GCM(3, 2, guide="amortized", response="bynary")  # type: ignore[arg-type]
    fit(model, x, r, y, elbo="iwea")  # type: ignore[arg-type]
    fit(model, x, r, y, objective="conditional", schedule="cosin")  # type: ignore[arg-type]


def of_tables(X: pd.DataFrame, late: npt.NDArray[np.bool_]) -> None:
    GCMClassifier(monotonic_cst={"debt": "rising"})  # type: ignore[arg-type]
    risk = GCMClassifier(monotonic_cst={"debt": 1}, prior="member")  # type: ignore[arg-type]
    risk.fit(X, late).predict_probability(X)  # type: ignore[attr-defined]
    audit_table(risk, X, piars=30)  # type: ignore[call-arg]
    load("risk").predict_proba(X)  # type: ignore[operator, union-attr]
    times = GCMSurvival().fit(X, (late, late))
    assert_type(times.predict_survival_function(X, return_array=True), npt.NDArray[np.float64])
    times.predict_survival_function(X, return_array=True).median()  # type: ignore[attr-defined]
